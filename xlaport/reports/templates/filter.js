"use strict";
(() => {
  const form = document.getElementById("filter");
  const output = form.querySelector("output");
  const files = [...document.querySelectorAll(".file")];
  const chosen = (name) => new Set([...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value));
  const all = (name) => form.querySelectorAll(`input[name=${name}]`).length;

  // Every place once: its rule, severity and applicability, and the file it is in.
  const places = [...document.querySelectorAll("[data-k]")].map((element) => {
    const [code, severity, applicability] = element.dataset.k.split(" ");
    const holder = element.closest("[data-file]");
    return { element, code, severity, applicability, file: holder.dataset.file.toLowerCase() };
  });
  // A box (a hunk) is shown with any of its places, a group (a file, a heading of a table, a section) with any of its boxes or rows.
  const groups = [...document.querySelectorAll("[data-box], [data-group]")];
  const notes = [...document.querySelectorAll("[data-empty]")];

  function filter() {
    const file = form.elements.file.value.trim().toLowerCase();
    const code = form.elements.rule.value;
    const severities = chosen("severity"), applicabilities = chosen("applicability");
    const shows = (place) => (!code || place.code === code) && severities.has(place.severity) && applicabilities.has(place.applicability) && place.file.includes(file);
    const isFiltered = Boolean(file || code || severities.size < all("severity") || applicabilities.size < all("applicability"));
    const alive = new Set();
    let count = 0;
    for (const place of places) {
      const isShown = shows(place);
      count += isShown;
      place.element.hidden = !isShown;
      if (isShown) for (let at = place.element.parentElement; at && !alive.has(at); at = at.parentElement) alive.add(at);
    }
    for (const group of groups) group.hidden = isFiltered && !alive.has(group);
    for (const note of notes) note.hidden = !isFiltered || alive.has(document.getElementById(note.dataset.empty));
    const said = count === 1 ? "1 place" : `${count.toLocaleString("en")} places`;
    output.value = isFiltered ? `${said} of ${places.length.toLocaleString("en")}` : said;
    label();
  }

  let waiting = 0;
  const later = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(filter); };
  form.addEventListener("input", later);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());

  const visible = () => files.filter((file) => !file.hidden);
  const fold = document.getElementById("fold");
  let labelling = 0;
  const label = () => { cancelAnimationFrame(labelling); labelling = requestAnimationFrame(name); };
  const name = () => { fold.textContent = visible().some((file) => !file.open) ? "Unfold all files" : "Fold all files"; };
  fold.addEventListener("click", () => {
    const open = visible().some((file) => !file.open);
    for (const file of visible()) file.open = open;
    label();
  });
  document.addEventListener("toggle", (event) => { if (event.target.matches?.(".file")) label(); }, true);

  // Printed, everything is unfolded that is shown.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });

  // The choice of colours is kept where the browser lets a page on disk keep something.
  for (const box of document.querySelectorAll("input[name=theme]")) {
    try { if (localStorage.getItem("xlaport-theme") === box.id) box.checked = true; } catch { /* not allowed: the choice lasts as long as the page */ }
    box.addEventListener("change", () => { try { localStorage.setItem("xlaport-theme", box.id); } catch { /* as above */ } });
  }

  form.hidden = false;
  filter();
})();
