// Numbers as the page's language writes them, rounded as the server rounds them (`priorities.sentences.numbers`).
const lang = document.documentElement.lang || "en";
const EXACT_DIGITS = 60; // of what is cut off: enough to tell a tie from its neighbours
const formats = [];  // by decimals, made when first needed
const some = new Intl.NumberFormat(lang, { maximumSignificantDigits: 6, useGrouping: false });

/** The nearest number with so many decimals; of two that are equally near, the even one. */
export function round(value, decimals) {
  const away = Number(value.toFixed(decimals)); // of a tie, the one further from 0
  const cut = Math.abs(value).toFixed(decimals + EXACT_DIGITS).split(".")[1].slice(decimals);
  if (!/^50*$/.test(cut) || Math.round(Math.abs(away) * 10 ** decimals) % 2 === 0) return away;
  return Number((away - Math.sign(value) * 10 ** -decimals).toFixed(decimals));
}

const formatOf = (decimals) => (formats[decimals] ??= new Intl.NumberFormat(lang, { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
export const number = (value, decimals) => formatOf(decimals).format(round(value, decimals) + 0);
export const whole = (n) => number(n, 0);
export const amount = (shares) => some.format(shares);
export const tenth = (part) => number(part * 100, 1);

/** 33.6 %; a dash if unknown; "<0.1 %" for a part above 0 that would be rounded to 0. */
export function percent(part, decimals = 1) {
  if (part === null || !Number.isFinite(part)) return "–";
  const smallest = 10 ** -decimals;
  const isLess = part > 0 && part * 100 < smallest / 2;
  return `${isLess ? `<${number(smallest, decimals)}` : number(part * 100, decimals)}\u00a0%`;
}

/** How far a part is from its target, in points: the difference of the two numbers as they are shown. */
export function gap(actual, target, decimals = 1) {
  return number(Math.abs(round(actual * 100, decimals) - round(target * 100, decimals)), decimals);
}
