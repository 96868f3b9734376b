// Pulling a border, by pointer or by keys. Both give shares to one entry; a drop or a run of keys is one operation.
const REST_MS = 1000; // after this without a key a run of keys is over
const HALVINGS = 40;
const POINTS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

/** Shares for which an edge is where the pointer is; `sign` −1 for an edge that goes down as shares go up. */
function solve(edgeAt, pointer, [least, most], sign) {
  let [low, high] = [least, most];
  for (let i = 0; i < HALVINGS; i += 1) {
    const middle = Math.sqrt(low * high);
    if ((edgeAt(middle) - pointer) * sign > 0) high = middle;
    else low = middle;
  }
  return (low + high) / 2;
}

/** `page`: picked, pick(uid), range(uid), edgeOf(stage, uid, side, shares), along(stage, side, event), apply(uid,
 *  shares, isFree), keep(uid), restore(), draw(). */
export class Puller {
  constructor(page) {
    this.page = page;
    this.drag = null;
    this.run = null;
  }

  get isActive() {
    return this.drag !== null || this.run !== null;
  }

  // --- By pointer: mouse, pen or finger ------------------------------------------------------------------------------
  start(event, stage, grip) {
    const { page } = this;
    const uid = grip.dataset.grip ?? page.picked;
    const side = grip.dataset.edge ?? grip.dataset.side ?? "right";
    this.settle();
    if (uid !== page.picked) page.pick(uid);
    const range = page.range(uid);
    const place = (shares) => page.edgeOf(stage, uid, side, shares);
    const offset = page.along(stage, side, event) - place(page.sharesOf(uid));
    this.drag = { uid, last: event, frame: 0, place, range, offset, sign: side === "left" ? -1 : 1, side, stage, grip };
    page.begin();
    this.listen(event.pointerId);
    document.documentElement.classList.add(page.isUpright(stage, side) ? "pulling-y" : "pulling-x");
    page.draw();
  }

  listen(pointerId) {
    const { drag } = this;
    const stop = new AbortController();
    drag.stop = stop;
    const to = { signal: stop.signal };
    drag.grip.setPointerCapture(pointerId);
    drag.grip.addEventListener("pointermove", (event) => {
      drag.last = event;
      drag.frame ||= requestAnimationFrame(() => this.follow());
    }, to);
    drag.grip.addEventListener("pointerup", (event) => {
      drag.last = event;
      this.follow();
      this.end(true);
    }, to);
    drag.grip.addEventListener("pointercancel", () => this.end(false), to);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      this.end(false);
    }, { ...to, capture: true });
  }

  follow() {
    const { drag, page } = this;
    if (!drag) return;
    drag.frame = 0;
    const pointer = page.along(drag.stage, drag.side, drag.last) - drag.offset;
    page.apply(drag.uid, solve(drag.place, pointer, drag.range, drag.sign), drag.last.altKey);
  }

  end(isKept) {
    const { drag, page } = this;
    if (!drag) return;
    drag.stop.abort();
    cancelAnimationFrame(drag.frame);
    document.documentElement.classList.remove("pulling-x", "pulling-y");
    this.drag = null;
    if (isKept) page.keep(drag.uid);
    else page.restore(drag.uid);
  }

  // --- By keys -------------------------------------------------------------------------------------------------------
  /** True where the key was one of ours. */
  key(event, uid) {
    const { page } = this;
    const step = POINTS[event.key];
    if (event.ctrlKey || event.metaKey) return false;
    if (step) this.stepBy(uid, (step * (event.shiftKey && Math.abs(step) === 1 ? 10 : 1)) / 1000);
    else if (event.key === "Home") this.stepTo(uid, page.range(uid)[0]);
    else if (event.key === "End") this.stepTo(uid, page.range(uid)[1]);
    else if (event.key === "u") this.stepTo(uid, page.sharesAsUsed(uid));
    else if (event.key === "Enter" && this.run) this.settle();
    else if (event.key === "Escape" && this.run) this.cancel();
    else return false;
    return true;
  }

  /** Another part of the whole, 0.001 for a tenth of a point; one step of shares where that is more. */
  stepBy(uid, part) {
    this.stepTo(uid, this.page.sharesBeyond(uid, part));
  }

  stepTo(uid, shares) {
    if (!Number.isFinite(shares)) return;
    if (!this.run) {
      this.run = { uid };
      this.page.begin();
    }
    clearTimeout(this.run.timer);
    this.run.timer = setTimeout(() => this.settle(), REST_MS);
    this.page.apply(uid, shares, false);
  }

  /** A run of keys is over: it is kept. */
  settle() {
    if (!this.run) return;
    clearTimeout(this.run.timer);
    const { uid } = this.run;
    this.run = null;
    this.page.keep(uid);
  }

  /** Whatever is under way is taken back. */
  cancel() {
    this.end(false);
    if (!this.run) return;
    clearTimeout(this.run.timer);
    const { uid } = this.run;
    this.run = null;
    this.page.restore(uid);
  }
}
