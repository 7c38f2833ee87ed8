// The search and the filters of the list of ops. Their state is the query of the address, so each state has a link.
(() => {
  const form = document.getElementById("ops-filter");
  const search = document.getElementById("ops-search");
  const fields = ["device", "category", "release"].map((name) => form.elements[name]);
  const differs = form.elements.differs;
  const rows = [...document.querySelectorAll("#ops tbody tr")];
  const none = document.getElementById("ops-none");
  const has = (list, name) => list.split(" ").includes(name);

  function read() {
    const query = new URLSearchParams(location.search);
    search.value = query.get("q") || "";
    for (const field of fields) {
      field.value = query.get(field.name) || "";
      if (field.selectedIndex < 0) field.value = ""; // an unknown value filters nothing
    }
    differs.checked = query.has("differs");
  }

  function write() {
    const query = new URLSearchParams();
    if (search.value.trim()) query.set("q", search.value.trim());
    for (const field of fields) if (field.value) query.set(field.name, field.value);
    if (differs.checked) query.set("differs", "1");
    const text = query.toString();
    history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
  }

  // A rule is shown if it is of the device and the category, and "unlisted" only if it is asked for; an op, if one of
  // its rules is.
  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.replace(/^f\./, "functional."));
    const [device, category, release] = fields.map((field) => field.value);
    let count = 0;
    for (const row of rows) {
      const data = row.dataset;
      let found = 0;
      for (const rule of row.querySelectorAll(".ops-rule")) {
        const isWanted = (rule.dataset.category === category || (!category && rule.dataset.category !== "unlisted")) &&
          (!device || has(rule.dataset.devices, device));
        rule.hidden = !isWanted;
        found += isWanted;
      }
      row.hidden = !(found && words.every((word) => data.text.includes(word)) &&
        (!release || has(data.releases, release)) &&
        (!differs.checked || (device ? has(data.differs, device) : data.differs)));
      for (const runs of row.querySelectorAll(".ops-runs")) { // a module or function that the search names
        runs.hidden = !words.length || !words.every((word) => runs.textContent.toLowerCase().includes(word));
      }
      count += !row.hidden;
    }
    document.getElementById("ops-count").value = count === rows.length ? `${count} ops` : `${count} of ${rows.length} ops`;
    none.hidden = count > 0;
  }

  const links = () => rows.filter((row) => !row.hidden).map((row) => row.querySelector("a"));

  // Sphinx's own keys stand back on this page.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const focused = document.activeElement;
    const isTyping = focused.matches("input:not([type=checkbox]), select, textarea");
    const found = links();
    const place = found.indexOf(focused);
    let next = null;
    if (event.key === "/" && !isTyping) next = search;
    else if (event.key === "Escape" && (focused === search || place >= 0)) {
      form.reset();
      next = search;
    } else if (event.key === "Enter" && focused === search) {
      if (found.length) found[0].click();
    } else if (event.key === "ArrowDown" && (focused === search || place >= 0)) next = found[place + 1];
    else if (event.key === "ArrowUp" && place >= 0) next = found[place - 1] || search;
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (next) next.focus();
  }, true);

  const update = () => { write(); show(); };
  form.addEventListener("input", update);
  form.addEventListener("reset", () => setTimeout(update));
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("popstate", () => { read(); show(); });
  read();
  show();
})();
