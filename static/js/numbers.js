// Numbers as the page's language writes them, rounded as the server rounds them (`priorities.sentences.numbers`).
const lang = document.documentElement.lang || "en";
const MOST_DECIMALS = 3;
const LEAST_DIFFERENCE = 10 ** -MOST_DECIMALS / 2; // in points; what is closer is shown as equal
const ROUNDING = 1e-12; // of fractions: a smaller difference is an error of rounding
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

/** The fewest decimals, 1 to 3, with which two parts in percent look different if they are. */
export function decimalsBeside(from, to) {
  for (let decimals = 1; decimals < MOST_DECIMALS; decimals += 1) {
    const looksSame = round(from * 100, decimals) === round(to * 100, decimals);
    if (looksSame === Math.abs(from * 100 - to * 100) < LEAST_DIFFERENCE) return decimals;
  }
  return MOST_DECIMALS;
}

/** How far a part is from its target, in points: the difference of the two numbers as they are shown. */
export function gap(actual, target) {
  const decimals = decimalsBeside(actual, target);
  return number(Math.abs(round(actual * 100, decimals) - round(target * 100, decimals)), decimals);
}

/** A part before and after in percent, and the change in points: that of the two numbers as they are shown. */
export function move(from, to, decimals = decimalsBeside(from, to)) {
  const change = round(to * 100, decimals) - round(from * 100, decimals);
  const isSmaller = Math.abs(to - from) > ROUNDING;
  const text = change ? `${change > 0 ? "+" : "−"}${number(Math.abs(change), decimals)}` : isSmaller ? `<${number(10 ** -decimals, decimals)}` : "±0";
  return { from: percent(from, decimals), to: percent(to, decimals), change: text };
}
