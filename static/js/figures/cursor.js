// One cursor for all pictures of a page: a stop is a moment of x, and every picture shows its own values there. Without
// a cursor each shows those of its resting stop: now, or the end of what is zoomed to.
const pictures = new Set();
let stop = null;

/** picture: `axis` ({at, stops, resting}, null before its numbers came) and `showStop(index, isCursor)`. */
export function join(picture) {
  pictures.add(picture);
}

export function leave(picture) {
  pictures.delete(picture);
}

/** Shows the cursor in a picture that has got new numbers. */
export function show(picture) {
  const { axis } = picture;
  if (!axis) return;
  const index = stop === null ? -1 : axis.stops.indexOf(stop);
  picture.showStop(index < 0 ? axis.resting : index, index >= 0);
}

/** moment: a stop of the axis, or null for none. */
export function moveTo(moment) {
  if (moment === stop) return;
  stop = moment;
  for (const picture of pictures) show(picture);
}

export const current = () => stop;

/** The stop that is nearest to a place within the inner box of a picture, 0..1; null beside it. */
export function nearest({ at, stops }, part) {
  if (!at.length || part < -0.02 || part > 1.02) return null;
  let best = 0;
  for (let i = 1; i < at.length; i++) if (Math.abs(at[i] - part) < Math.abs(at[best] - part)) best = i;
  return stops[best];
}
