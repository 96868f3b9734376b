// The builder: a click in the tree's picture writes the path of the entry into its field.
const chosen = () => new URLSearchParams(location.search).get("entry") ?? "";

function follow() {
  const field = document.getElementById("id_entry"), uid = chosen();
  if (!field || !uid) return;
  const known = document.querySelector(`#entry-paths option[data-uid="${CSS.escape(uid)}"]`);
  field.value = known ? known.value : uid;
}

document.addEventListener("figure:state", follow);
addEventListener("popstate", follow);
follow();
