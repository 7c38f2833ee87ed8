// The search and the filters of the list of ops. The query of the URL stores their state, so each state can be linked.
(() => {
  const form = document.getElementById("ops-filter");
  const search = document.getElementById("ops-search");
  const { device, category } = form.elements;
  const rows = [...document.querySelectorAll("#ops tbody tr")];
  const count = document.getElementById("ops-count");

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.replace(/^f\./, "functional."));
    for (const row of rows) {
      const rules = [...row.querySelectorAll(".ops-rule")];
      for (const { dataset, style } of rules) {
        const fits = (!category.value || dataset.category === category.value) &&
          (!device.value || dataset.devices.split(" ").includes(device.value));
        style.display = fits ? "" : "none";
      }
      row.hidden = !rules.some((rule) => rule.style.display === "") || !words.every((word) => row.dataset.text.includes(word));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.value = shown === rows.length ? `${shown} ops` : `${shown} of ${rows.length} ops`;
  }

  function update() {
    const query = new URLSearchParams(Object.entries({ q: search.value.trim(), device: device.value, category: category.value }).filter(([, value]) => value));
    history.replaceState(null, "", location.pathname + (query.size ? `?${query}` : "") + location.hash);
    show();
  }

  const query = new URLSearchParams(location.search);
  search.value = query.get("q") || "";
  for (const field of [device, category]) {
    field.value = query.get(field.name) || "";
    if (field.selectedIndex < 0) field.value = ""; // an unknown value filters nothing
  }
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
