// A slider beside a number: it fills the field in, whose form follows as if it had been typed.
document.addEventListener("input", ({ target }) => {
  const field = target.dataset?.slides && document.getElementById(target.dataset.slides);
  if (field) field.value = target.value;
});
