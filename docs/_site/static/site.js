/* For readers with a keyboard or a screen reader: what Sphinx and its theme leave out. */
for (const caption of document.querySelectorAll("p.caption[role=heading]")) {
  caption.setAttribute("aria-level", "2");
}
function letScroll() {
  for (const box of document.querySelectorAll("pre, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
letScroll();
window.addEventListener("resize", letScroll);
