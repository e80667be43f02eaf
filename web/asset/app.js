// The script of all pages: local times, keys, copy buttons, and live parts.
// It never makes markup of text: the server has escaped the markup that it sends, and the script inserts it unchanged.
(() => {
  "use strict";
  const root = document.documentElement, body = document.body;
  const byId = id => document.getElementById(id);
  const skew = Date.now() - Number(body.dataset.now); // between this clock and the server's
  root.classList.add("js");

  // Times: the server writes UTC, the script shows the zone of this machine. The title keeps the server's text.
  const two = n => String(n).padStart(2, "0");
  const day = d => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  const clock = d => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const span = ms => {
    const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60);
    if (s < 60) return `${s}s`;
    if (m < 60) return `${m}m${two(s % 60)}s`;
    if (h < 24) return `${h}h${two(m % 60)}m`;
    return `${Math.floor(h / 24)}d${two(h % 24)}h`;
  };
  const tick = t => { t.textContent = span(Date.now() - skew - Number(t.dataset.since)); };
  const localize = within => {
    const today = day(new Date());
    for (const t of within.querySelectorAll("time[datetime]")) {
      if (t.dataset.since) { tick(t); continue; }
      const d = new Date(t.dateTime);
      if (!isNaN(d)) t.textContent = day(d) === today ? clock(d) : `${day(d)} ${clock(d)}`;
    }
  };
  localize(document);
  byId("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  setInterval(() => { if (!document.hidden) document.querySelectorAll("time[data-since]").forEach(tick); }, 1000);

  // Copy buttons. Over plain HTTP there is no navigator.clipboard.
  const say = text => { byId("said").textContent = text; };
  const copyOld = text => {
    const area = document.createElement("textarea"), before = document.activeElement;
    area.value = text;
    area.className = "said";
    body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (before) before.focus();
    return done;
  };
  const copy = async text => {
    if (navigator.clipboard && window.isSecureContext) {
      try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed: the old way may be */ }
    }
    return copyOld(text);
  };
  document.addEventListener("click", async event => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const done = await copy(button.dataset.copy);
    button.title = done ? "Copied" : "The browser does not let this page copy";
    say(done ? "Copied " + button.dataset.copy : button.title);
  });

  // Keys. They can be turned off, which this browser remembers.
  const help = byId("help"), jump = byId("jump"), keysOn = byId("keys"), keysName = "oarlock_keys_off";
  const remember = {
    get off() { try { return localStorage.getItem(keysName) === "1"; } catch { return false; } },
    set off(v) { try { v ? localStorage.setItem(keysName, "1") : localStorage.removeItem(keysName); } catch { /* then it holds for this page */ } },
  };
  keysOn.checked = !remember.off;
  keysOn.addEventListener("change", () => { remember.off = !keysOn.checked; });
  let current = ""; // id, or position, of the row that keys act on
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const mark = () => rows().forEach((row, i) => row.classList.toggle("cur", (row.id || String(i)) === current));
  const move = by => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row, i) => (row.id || String(i)) === current);
    const to = at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by));
    current = all[to].id || String(to);
    mark();
    all[to].scrollIntoView({ block: "nearest" });
    const link = all[to].querySelector("a[data-open]");
    if (link) link.focus({ preventScroll: true });
  };
  const keys = {
    "/": () => { jump.focus(); jump.select(); },
    "?": () => { help.open ? help.close() : help.showModal(); },
    j: () => move(1),
    k: () => move(-1),
    x: () => { const box = document.querySelector("[data-row].cur input[type=checkbox]"); if (box) box.click(); return !!box; },
    Enter: () => { const link = document.querySelector("[data-row].cur a[data-open]"); if (link) link.click(); return !!link; },
  };
  document.addEventListener("keydown", event => {
    const at = event.target, typing = at.matches && at.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) { at.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (!keysOn.checked && event.key !== "?") return;
    if (help.open && event.key !== "?") return;
    if (event.key === "Enter" && at.closest("a, button, summary, input")) return; // Enter opens the focused element
    const more = window.oarlockKeys || {}; // keys that run.js adds
    const second = more.before && more.before(event.key);
    if (second !== undefined) { if (second) event.preventDefault(); return; }
    const act = keys[event.key] || more[event.key];
    if (act && act() !== false) event.preventDefault();
  });

  // Live parts. A hidden tab holds no connection: browsers have six for a server, over all tabs.
  const url = body.dataset.live;
  if (!url) return;
  const retryAfter = 5000; // ms; EventSource does not retry by itself when the server refuses a stream
  const light = document.querySelector(".live"), word = byId("live-state"), band = byId("band"), pause = byId("pause");
  let source = null, retry = 0, paused = false, ended = false, seen = new Date();
  const show = (state, text) => { light.classList.toggle("lost", state === "lost"); light.classList.toggle("off", state === "off"); if (word.textContent !== text) word.textContent = text; };
  const alive = () => { seen = new Date(); band.hidden = true; show("", "live"); };
  const close = () => { clearTimeout(retry); if (source) source.close(); source = null; };
  const away = () => {
    band.textContent = `Last look ${clock(seen)}, trying again.`;
    band.hidden = false;
    show("lost", "away");
  };
  const end = text => { close(); ended = true; pause.hidden = true; show("off", text); };
  const lost = () => {
    away();
    if (source && source.readyState === EventSource.CLOSED) { close(); retry = setTimeout(open, retryAfter); }
  };
  const put = html => {
    const parts = document.createElement("template");
    parts.innerHTML = html;
    localize(parts.content);
    for (const part of [...parts.content.children]) {
      const old = part.id && byId(part.id);
      if (!old || [...old.querySelectorAll("input[type=text]")].some(i => i.value !== i.defaultValue)) continue; // the user is typing there
      for (const box of old.querySelectorAll("input[name]:checked")) { // keep the user's choice, which the server does not know
        const same = [...part.querySelectorAll("input")].find(b => b.name === box.name && b.value === box.value);
        if (same) same.setAttribute("checked", "");
      }
      Idiomorph.morph(old, part, { morphStyle: "outerHTML", ignoreActiveValue: true });
      if (part.dataset.title) document.title = part.dataset.title;
      document.dispatchEvent(new CustomEvent("oarlock:region", { detail: part.id }));
    }
    mark();
  };
  const open = () => {
    close();
    if (paused || ended || document.hidden) return;
    source = new EventSource(url);
    source.addEventListener("open", alive);
    source.addEventListener("error", lost);
    source.addEventListener("region", event => { alive(); put(event.data); });
    source.addEventListener("lines", event => {
      alive();
      document.dispatchEvent(new CustomEvent("oarlock:lines", { detail: { ...JSON.parse(event.data), localize } }));
    });
    source.addEventListener("away", away);
    source.addEventListener("over", () => { alive(); end("ended"); });
    source.addEventListener("gone", event => { end("gone"); band.textContent = event.data; band.hidden = false; });
  };
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) { close(); band.hidden = true; show("off", `as of ${clock(seen)}`); } else open();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else if (!source) open(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", event => { if (event.persisted) open(); });
  open();
})();
