// What goes to the server: one operation a drop, one after the other.

/** Edits in their order. What can't be saved is given back with why, together with all that waited behind it. */
export class Saver {
  /** `saved(html, item)` and `failed(why, html, items)`; why: stale, refused, server, signed_out or offline. */
  constructor({ version, show, saved, failed }) {
    Object.assign(this, { version, show, saved, failed });
    this.items = [];
    this.isBusy = false;
    this.waiting = [];
    addEventListener("beforeunload", (event) => { if (this.items.length) event.preventDefault(); });
  }

  add(item) {
    this.items.push(item);
    this.run();
  }

  /** True once everything is saved, false where something could not be. */
  drained() {
    return this.items.length ? new Promise((resolve) => { this.waiting.push(resolve); }) : Promise.resolve(true);
  }

  async run() {
    if (this.isBusy) return;
    this.isBusy = true;
    let well = true;
    while (well && this.items.length) {
      this.show(true);
      well = await this.send(this.items[0]);
    }
    this.isBusy = false;
    this.show(false);
    this.waiting.splice(0).forEach((resolve) => resolve(well));
  }

  async send(item) {
    let [response, html] = [null, ""];
    try {
      const { "X-CSRFToken": token } = JSON.parse(document.body.getAttribute("hx-headers"));
      response = await fetch(item.url, {
        method: "POST", body: new URLSearchParams(item.fields), credentials: "same-origin",
        headers: { "HX-Request": "true", "If-Match": `"${this.version}"`, "X-CSRFToken": token },
      });
      html = await response.text();
    } catch {
      return this.giveUp("offline", "");
    }
    const tag = /"(\d+)"/.exec(response.headers.get("ETag") ?? "");
    if (response.ok && tag) {
      this.items.shift();
      this.version = tag[1];
      this.saved(html, item);
      return true;
    }
    const why = { 401: "signed_out", 412: "stale" }[response.status];
    return this.giveUp(why ?? (response.status >= 500 || response.ok ? "server" : "refused"), html);
  }

  giveUp(why, html) {
    this.failed(why, html, this.items.splice(0));
    return false;
  }
}
