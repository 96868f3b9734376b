// Pictures are made one after the other, those that are seen before the others, and the browser paints in between: the
// first one is on the screen while the others are being made. None is made while the page scrolls, which would stutter.
const STILL_MS = 150;
const waiting = new Map();  // by element: what is to be done, once, and who waits for it
let isAtWork = false;

const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

let scrolledAt = -Infinity;
addEventListener("scroll", () => { scrolledAt = performance.now(); }, { passive: true });

async function still() {
  let left;
  while ((left = scrolledAt + STILL_MS - performance.now()) > 0) await new Promise((done) => setTimeout(done, left));
}

/** Pixels that an element is away from what is seen. */
function away(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return Math.max(top - innerHeight, -bottom, 0);
}

function nearest() {
  return [...waiting].map(([element, job]) => ({ element, job, away: away(element) })).reduce((a, b) => (b.away < a.away ? b : a));
}

async function workOff() {
  if (isAtWork) return;
  isAtWork = true;
  while (waiting.size) {
    await still();
    const { element, job } = nearest();
    waiting.delete(element);
    try {
      job.done(element.isConnected ? await job.work() : undefined);  // it may have left the page meanwhile
    } catch (error) {
      job.failed(error);
    }
    if (waiting.size && !document.hidden) await painted();
  }
  isAtWork = false;
}

/** `work` in its turn; the promise is kept when it is done. Asked for again while it waits, it is done once. */
export function inTurn(element, work) {
  const known = waiting.get(element);
  if (known) return known.promise;
  const job = { work };
  job.promise = new Promise((done, failed) => Object.assign(job, { done, failed }));
  waiting.set(element, job);
  queueMicrotask(workOff);  // those that are asked for at once are compared
  return job.promise;
}
