// Days as people say them, one form for pictures, sliders and announcements.
const lang = document.documentElement.lang || "en";
let form = null;  // when first needed: making it takes long
const dayForm = () => (form ??= new Intl.DateTimeFormat(lang, { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }));

/** Such as "Tue 17 Nov 2026" of "2026-11-17"; with its time, if `on` has one. */
export function dayWords(on, { weekday = false } = {}) {
  const [day, at] = String(on).split(/[ T]/);
  const parts = Object.fromEntries(dayForm().formatToParts(new Date(`${day}T00:00Z`)).map(({ type, value }) => [type, value]));
  const order = [...(weekday ? ["weekday"] : []), "day", "month", "year"];  // as Plotly writes them
  return [...order.map((part) => parts[part]), ...(at ? [at.slice(0, 5)] : [])].join(" ");
}
