// The script of a run's pages, besides app.js: live logs, marked lines, and keys of a run.
(() => {
  "use strict";
  const byId = id => document.getElementById(id);
  const most = 3000; // lines that a page holds

  // The switches of a log are kept by this browser.
  const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* then it holds for this page */ } };
  const recall = name => { try { return localStorage.getItem(name); } catch { return null; } };
  const toggle = (id, name, usual) => {
    const button = byId(id);
    if (!button) return;
    const set = on => { button.setAttribute("aria-pressed", String(on)); const log = byId("log"); if (log) log.classList.toggle(name, on); };
    set((recall("oarlock_" + name) || usual) === "1");
    button.addEventListener("click", () => { const on = button.getAttribute("aria-pressed") !== "true"; set(on); remember("oarlock_" + name, on ? "1" : "0"); });
  };
  toggle("times", "times", "0");
  toggle("wrap", "wrap", "1");
  const settle = () => { for (const id of ["times", "wrap"]) { const b = byId(id), log = byId("log"); if (b && log) log.classList.toggle(id, b.getAttribute("aria-pressed") === "true"); } };

  // Following: if the end of the log is in sight, it stays in sight when lines arrive.
  let following = true, unseen = 0;
  const atEnd = log => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const follow = log => { log.scrollTop = log.scrollHeight; unseen = 0; news(); };
  const news = () => { const n = byId("log-news"); if (n) n.textContent = unseen ? `${unseen} new line${unseen === 1 ? "" : "s"}` : ""; };
  const watch = log => {
    if (!log || log.dataset.watched) return;
    log.dataset.watched = "1";
    log.addEventListener("scroll", () => { following = atEnd(log); if (following) { unseen = 0; news(); } }, { passive: true });
  };
  const begin = () => {
    const log = byId("log");
    watch(log);
    const here = log && log.querySelector("li.here");
    if (here) { following = false; log.scrollTop = here.offsetTop - log.clientHeight / 3; }
    else if (log && "follow" in log.dataset) follow(log);
  };
  begin();

  document.addEventListener("oarlock:lines", event => {
    const log = byId("log"), list = log && log.querySelector("ol");
    if (!list) return;
    const parts = document.createElement("template");
    parts.innerHTML = event.detail.html;
    event.detail.localize(parts.content);
    const empty = log.querySelector(".empty");
    if (empty) empty.remove();
    let added = 0;
    for (const line of [...parts.content.children]) {
      const old = byId(line.id);
      if (old) old.replaceWith(line); else { list.append(line); added++; }
    }
    while (list.children.length > most) list.firstElementChild.remove();
    const range = byId("log-range");
    if (range) range.textContent = event.detail.count;
    if (following) follow(log); else { unseen += added; news(); }
  });
  document.addEventListener("oarlock:region", event => {
    if (event.detail === "log") { settle(); watch(byId("log")); if (following) follow(byId("log")); }
  });

  // A click on a line number marks the line, a click with shift the lines up to it. The address changes along.
  document.addEventListener("click", event => {
    const number = event.target.closest && event.target.closest("#log li > a");
    if (!number || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const to = new URL(number.href), line = Number(to.searchParams.get("line"));
    let first = line, last = line;
    if (event.shiftKey) {
      const from = Number(String(new URL(location.href).searchParams.get("line") || "").split("-")[0]) || line;
      first = Math.min(from, line); last = Math.max(from, line);
    }
    to.searchParams.set("line", first === last ? String(first) : `${first}-${last}`);
    history.replaceState(null, "", to);
    for (const li of document.querySelectorAll("#log li")) {
      const n = Number(li.id.slice(1));
      li.classList.toggle("here", n >= first && n <= last);
    }
  });

  // Keys, through app.js, which knows when they are on.
  const press = selector => { const e = document.querySelector(selector); if (e) e.click(); return !!e; };
  const neighbour = by => {
    const rows = [...document.querySelectorAll("[data-row]")], at = rows.findIndex(r => r.classList.contains("on"));
    const row = rows[at + by], link = at >= 0 && row && row.querySelector("a[data-open]");
    if (link) link.click();
    return !!link;
  };
  const marks = by => {
    const log = byId("log"), all = log ? [...log.querySelectorAll("mark")] : [];
    if (!all.length) return false;
    const at = all.findIndex(m => m.classList.contains("at"));
    all.forEach(m => m.classList.remove("at"));
    const to = all[(at + by + all.length) % all.length];
    to.classList.add("at");
    to.scrollIntoView({ block: "center" });
    return true;
  };
  let afterG = false;
  const views = { t: "timeline", g: "graph", k: "tasks", e: "events", p: "params" };
  window.oarlockKeys = {
    before: key => {
      if (!afterG) return undefined;
      afterG = false;
      return views[key] ? press(`#tabs a[data-view="${views[key]}"]`) : false;
    },
    g: () => { afterG = !!byId("tabs"); return afterG; },
    "[": () => neighbour(-1),
    "]": () => neighbour(1),
    l: () => { const log = byId("log"); if (log) log.focus(); return !!log; },
    f: () => { const log = byId("log"); if (!log) return false; following = true; follow(log); return true; },
    n: () => marks(1),
    N: () => marks(-1),
    Y: () => press(".next [data-copy]"),
  };
})();
