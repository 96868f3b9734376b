// Tells the page that asked for this sign-in, and closes the window that it opened.
new BroadcastChannel("fairshare-sign-in").postMessage("done");
close();
