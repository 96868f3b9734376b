// Sentences of the editor in the page's language; they come with the page.
import { amount } from "./numbers.js";

const words = JSON.parse(document.getElementById("editor-words").textContent);

/** A sentence with its gaps filled. */
export const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_all, name) => values[name]);
export const shares = (n) => say(n === 1 ? "share_one" : "share_many", { n: amount(n) });
