// Pictures are made one after the other, those that are seen before the others, each when the browser has nothing else to
// do: the first one is on the screen while the others are being made. None is made while the page scrolls or somebody
// types, who would notice.
const STILL_MS = 150, LONGEST_WAIT_MS = 2000;
const waiting = new Map();  // by element: what is to be done, once, and who waits for it
let isAtWork = false;

/** After the next frame; frames of a page in the background don't come. */
export const painted = () => new Promise((done) => { if (document.hidden) setTimeout(done); else requestAnimationFrame(() => setTimeout(done)); });

let movedAt = -Infinity;
for (const kind of ["scroll", "keydown", "input"]) addEventListener(kind, () => { movedAt = performance.now(); }, { passive: true, capture: true });

/** When nothing has moved for a moment and the browser is idle; on a busy machine after two seconds. */
async function idle() {
  let left;
  while ((left = movedAt + STILL_MS - performance.now()) > 0) await new Promise((done) => setTimeout(done, left));
  const ask = window.requestIdleCallback ?? ((done) => setTimeout(done));  // Safari has none
  await new Promise((done) => ask(done, { timeout: LONGEST_WAIT_MS }));
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
    await idle();
    const { element, job } = nearest();
    waiting.delete(element);
    try {
      job.done(element.isConnected ? await job.work() : undefined);  // it may have left the page meanwhile
    } catch (error) {
      job.failed(error);
    }
    if (waiting.size) await painted();
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
