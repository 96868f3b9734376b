// Moving an entry by dragging its icon: an extra, the dialog does the same. Rows say what would happen, in words.
const STARTS_AFTER_PX = 5;

export function draggable(table, { words, move, announce }) {
  let taken = null;
  let from = null;
  let note = null;
  let goal = null;

  const rowOf = (uid) => table.querySelector(`tr[data-uid="${uid}"]`);

  function whyNot(row) {
    for (let step = row; step; step = rowOf(step.dataset.parent)) {
      if (step === taken) return words.inside;
    }
    return row.hasAttribute("data-divides") ? "" : words.notYours;
  }

  function start(event) {
    note = Object.assign(document.createElement("div"), { className: "dragnote" });
    document.body.append(note);
    taken.classList.add("taken");
    over(event);
  }

  function over(event) {
    const row = document.elementFromPoint(event.clientX, event.clientY)?.closest("tr[data-uid]");
    goal?.classList.remove("goal", "nogoal");
    goal = row && table.contains(row) ? row : null;
    const refused = goal ? whyNot(goal) : "";
    goal?.classList.add(refused ? "nogoal" : "goal");
    const text = goal ? refused || `${words.into} ${goal.querySelector(".label").textContent}` : "";
    if (note.textContent !== text) announce(text);
    note.textContent = text;
    note.style.left = `${event.clientX + 14}px`;
    note.style.top = `${event.clientY + 10}px`;
  }

  function stop() {
    note?.remove();
    goal?.classList.remove("goal", "nogoal");
    taken?.classList.remove("taken");
    note = goal = taken = from = null;
  }

  table.addEventListener("pointerdown", (event) => {
    const grip = event.button === 0 && event.target.closest(".grip");
    const row = grip && grip.closest("tr[data-moves]");
    if (!row) return;
    event.preventDefault();
    taken = row;
    from = event;
  });
  document.addEventListener("pointermove", (event) => {
    if (!taken) return;
    if (note) over(event);
    else if (Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) > STARTS_AFTER_PX) start(event);
  });
  document.addEventListener("pointerup", () => {
    if (note && goal && !whyNot(goal) && goal.dataset.uid !== taken.dataset.parent) {
      move(taken.dataset.uid, goal.dataset.uid);
    }
    stop();
  });
  document.addEventListener("pointercancel", stop);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && taken) stop();
  });
}
