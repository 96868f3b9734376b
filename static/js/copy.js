// Copy buttons. Without script they stay hidden, and the text can be selected by hand.
import { announce } from "./shell.js";

async function copy(text, element) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const selection = getSelection();
  selection.selectAllChildren(element);
  if (!document.execCommand("copy")) throw new Error("selected, not copied");
  selection.removeAllRanges();
}

function offer(button) {
  const label = button.querySelector("span");
  const before = label.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const element = document.getElementById(button.dataset.copy);
    try {
      await copy(element.textContent, element);
    } catch {
      getSelection().selectAllChildren(element);
      return;
    }
    label.textContent = button.dataset.copied;
    announce(button.dataset.copied);
    setTimeout(() => { label.textContent = before; }, 2000);
  });
}

const offerAll = () => document.querySelectorAll("[data-copy][hidden]").forEach(offer);
offerAll();
document.addEventListener("htmx:afterSettle", offerAll);
