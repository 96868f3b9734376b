// A session that ended: signing in again over the open page. What was typed stays, and what was asked for goes on, but
// never as another person than the one who opened the page.
const { user, signInState, signInAgain: dialogUrl } = document.body.dataset;
const NEEDS_NO_SESSION = "/sign-in/";
const SIGNED_OUT = 401;
let asking = null; // the promise of the open dialog: one for all that wait

/** Whether this answer of the server says that the session has ended. */
export const hasEnded = ({ status, headers }) => status === SIGNED_OUT || headers.has("X-Form-Expired");

/** The form token of the session of this page's user; null where nobody, or somebody else, signed in. */
export function signInAgain({ form = null } = {}) {
  if (!user || form?.closest("#sign-in-again")) return Promise.resolve(null);
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

async function stateNow() {
  const response = await fetch(signInState, { headers: { Accept: "application/json" }, cache: "no-store", redirect: "error" });
  return response.json();
}

async function ask() {
  const state = await stateNow();
  return state.user === null ? askInDialog() : resume(state);
}

/** The page takes the session of its own user; of another one only the token, so that what is sent is sent by hand. */
function resume(state) {
  takeToken(state.token);
  if (state.user !== user) {
    sayOther(state.name);
    return null;
  }
  document.dispatchEvent(new CustomEvent("session:resumed"));
  return state.token;
}

function takeToken(token) {
  for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = token;
  document.body.setAttribute("hx-headers", JSON.stringify({ "X-CSRFToken": token }));
}

function sayOther(name) {
  const note = document.getElementById("other-user-note").content.firstElementChild.cloneNode(true);
  note.querySelector("[data-name]").textContent = note.querySelector("[data-name]").dataset.name.replace("NAME", () => name);
  const dialog = Object.assign(document.createElement("dialog"), { id: "sign-in-again" });
  dialog.append(note);
  dialog.addEventListener("click", (event) => { if (event.target.closest("[data-again-close]")) dialog.close(); });
  open(dialog);
}

function open(dialog) {
  document.getElementById("sign-in-again")?.remove();
  const from = document.activeElement;
  document.body.append(dialog);
  dialog.addEventListener("close", () => { dialog.remove(); from?.focus?.({ preventScroll: true }); }, { once: true });
  dialog.showModal();
}

async function askInDialog() {
  const response = await fetch(`${dialogUrl}?${new URLSearchParams({ user })}`, { cache: "no-store", redirect: "error" });
  const dialog = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("sign-in-again");
  const end = dialog.querySelector("input[name=next]").value; // the page to which a whole sign-in leads
  open(document.adoptNode(dialog));
  return new Promise((resolve) => {
    const channel = new BroadcastChannel("fairshare-sign-in");
    const look = async () => {
      const state = await stateNow().catch(() => ({ user: null }));
      if (state.user !== null && dialog.open) finish(state);
    };
    const finish = (state) => {
      channel.close();
      removeEventListener("focus", look);
      dialog.close();
      resolve(state ? resume(state) : null);
    };
    dialog.addEventListener("close", () => finish(null), { once: true });
    dialog.addEventListener("click", (event) => { if (event.target.closest("[data-again-close]")) dialog.close(); });
    dialog.addEventListener("form:done", (event) => {
      event.preventDefault();
      goOn(dialog, event.detail, { end, look });
    });
    dialog.addEventListener("submit", (event) => {
      if (event.target.target) window.open("about:blank", event.target.target, "popup,width=520,height=720");
    });
    channel.addEventListener("message", look);
    addEventListener("focus", look);
  });
}

/** Signed in, or the next step: a code of the second factor, which its page asks for. */
async function goOn(dialog, place, { end, look }) {
  const next = new URL(place, location.href);
  if (next.pathname === end) return look();
  const response = await fetch(next, { cache: "no-store" });
  const page = new DOMParser().parseFromString(await response.text(), "text/html"), step = page.querySelector("main .stack");
  if (!step || !next.pathname.startsWith(NEEDS_NO_SESSION)) return look();
  step.querySelector(".brand")?.remove();
  step.querySelector("h1")?.replaceWith(Object.assign(document.createElement("h2"), { id: "again-title", textContent: step.querySelector("h1").textContent }));
  dialog.replaceChildren(document.adoptNode(step));
  dialog.querySelector("[autofocus]")?.focus();
  return undefined;
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-sign-in]") || !user) return;
  event.preventDefault();
  await signInAgain();
});
