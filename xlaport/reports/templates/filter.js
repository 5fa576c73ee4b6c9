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
    return { element, code, severity, applicability, file: element.closest("[data-file]").dataset.file.toLowerCase() };
  });
  const notes = [...document.querySelectorAll("[data-empty]")];

  // A box (a hunk) or group (a file, a part of a table) is shown with any of the places in it.
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
    for (const group of document.querySelectorAll("[data-box], [data-group]")) group.hidden = isFiltered && !alive.has(group);
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
  // Edits are put side by side when their file is unfolded: two thousand files of tables would take seconds to open.
  const made = (tag, text) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text });
  const cell = (row, name, number, content) => {
    const made = row.insertCell();
    if (name) made.className = name;
    if (number) made.dataset.n = number;
    if (content) made.append(content);
  };

  function besides(body, text, at) {
    let old = [], added = [];
    const edited = () => {
      for (let i = 0; i < Math.max(old.length, added.length); i++) {
        const row = body.insertRow();
        i < old.length ? cell(row, "o", at.old++, made("del", old[i])) : cell(row, "e");
        i < added.length ? cell(row, "n", at.new++, made("ins", added[i])) : cell(row, "e");
      }
      old = []; added = [];
    };
    for (const line of text.split("\n")) {
      if (line[0] === "-") old.push(line.slice(1));
      else if (line[0] === "+") added.push(line.slice(1));
      else {
        edited();
        const row = body.insertRow();
        cell(row, "c", at.old++, line.slice(1));
        cell(row, "", at.new++, line.slice(1));
      }
    }
    edited();
  }

  function explained(list) {
    const said = new Set();
    for (const link of list.querySelectorAll("a")) {
      const reason = document.getElementById(link.hash.slice(1))?.querySelector(".reason");
      if (!reason || said.has(link.hash)) continue;
      said.add(link.hash);
      const words = made("span", " ");
      words.className = "quiet";
      words.append(...reason.cloneNode(true).childNodes);
      link.parentElement.append(words);
    }
    return list;
  }

  function build(file) {
    const hunks = [...file.querySelectorAll(".hunk")];
    if (!hunks.length) return;
    const table = made("table");
    table.className = "diff";
    const caption = table.createCaption();
    caption.className = "away";
    caption.textContent = `Edits of ${file.dataset.file}`;
    const head = table.createTHead().insertRow();
    for (const word of ["before", "after"]) head.append(Object.assign(made("th", word), { scope: "col" }));
    for (const hunk of hunks) {
      const body = table.createTBody(), at = { old: Number(hunk.dataset.old), new: Number(hunk.dataset.new) };
      body.dataset.box = "";
      body.hidden = hunk.hidden;
      const wide = (content) => {
        const row = body.insertRow();
        row.className = "reasons";
        Object.assign(row.insertCell(), { colSpan: 2 }).append(content);
      };
      if (hunk.dataset.cell) wide(Object.assign(made("p", `cell ${hunk.dataset.cell}`), { className: "cell" }));
      for (const child of [...hunk.children]) child.localName === "pre" ? besides(body, child.textContent, at) : wide(explained(child));
    }
    hunks[0].before(table);
    for (const hunk of hunks) hunk.remove();
  }
  for (const file of files) {
    if (file.open) build(file);
    file.addEventListener("toggle", () => { if (file.open) build(file); label(); });
  }

  // Printed, everything is unfolded that is shown.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
    files.forEach(build);
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });

  // The choice of colours is kept where the browser lets a page on disk keep something.
  const theme = document.getElementById("theme");
  const kept = (() => { try { return localStorage.getItem("xlaport-theme"); } catch { return null; } })();
  const paint = (name) => { name === "system" ? delete document.documentElement.dataset.theme : document.documentElement.dataset.theme = name; };
  for (const box of theme.querySelectorAll("input")) {
    if (box.value === kept) { box.checked = true; paint(kept); }
    box.addEventListener("change", () => {
      paint(box.value);
      try { localStorage.setItem("xlaport-theme", box.value); } catch { /* the choice lasts as long as the page */ }
    });
  }
  theme.hidden = false;

  form.hidden = false;
  filter();
})();
