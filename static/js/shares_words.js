// Numbers and sentences as the page's language writes them; the sentences come with the page.
const lang = document.documentElement.lang || "en";
const words = JSON.parse(document.getElementById("group-words").textContent);
const one = new Intl.NumberFormat(lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const some = new Intl.NumberFormat(lang, { maximumSignificantDigits: 6, useGrouping: false });
const count = new Intl.NumberFormat(lang);

/** A sentence with its gaps filled. */
export const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_all, name) => values[name]);
export const tenth = (part) => one.format(part * 100);
export const percent = (part) => (part === null ? "–" : `${tenth(part)}\u00a0%`);
export const whole = (n) => count.format(n);
export const amount = (shares) => some.format(shares);
export const shares = (n) => say(n === 1 ? "share_one" : "share_many", { n: amount(n) });
export const points = (part) => one.format(Math.abs(part) * 100);

/** Before, after and the change between them in percent, with the fewest decimals, 1 to 3, at which they agree. */
export function move(from, to) {
  for (let decimals = 1; ; decimals += 1) {
    const round = (part) => Number((part * 100).toFixed(decimals));
    const change = round(to - from);
    const agrees = Number((round(to) - round(from)).toFixed(decimals)) === change && change !== 0;
    if (!agrees && decimals < 3) continue;
    const format = new Intl.NumberFormat(lang, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    const sign = change > 0 ? "+" : "−";
    return { from: format.format(round(from)), to: `${format.format(round(to))}\u00a0%`, change: change === 0 ? "±0" : `${sign}${format.format(Math.abs(change))}` };
  }
}
