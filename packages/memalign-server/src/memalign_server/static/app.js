// Keys, the next case, answers that wait for the line. No library but htmx, nothing from another host.
(() => {
  "use strict";
  const KEPT = "memalign-unsaved";
  const doc = document;

  // -- keys: an element with data-key is pressed by that key, unless somebody is writing --------------------------
  const writing = (element) => element && (element.matches("input:not([type=radio]):not([type=checkbox]), textarea, select") || element.isContentEditable);
  const shown = (element) => element.offsetParent !== null && !element.disabled;

  doc.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && writing(event.target)) {
      const form = event.target.closest("form");
      const button = form && form.querySelector("[data-main]");
      if (button) { event.preventDefault(); button.click(); }
      return;
    }
    if (event.key === "Escape" && writing(event.target)) { event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
    if (event.key === "Enter" && event.target.matches("a, button, summary, [role=button]")) return;
    const key = event.key === "Enter" ? "enter" : event.key.toLowerCase();
    for (const element of doc.querySelectorAll("[data-key]")) {
      if (element.dataset.key === key && shown(element)) {
        event.preventDefault();
        if (element.matches("textarea, input")) element.focus(); else element.click();
        return;
      }
    }
  });

  // -- focus mode ----------------------------------------------------------------------------------------------
  const setFocus = (on) => {
    doc.documentElement.toggleAttribute("data-focus", on);
    for (const button of doc.querySelectorAll("[data-focus-mode]")) button.setAttribute("aria-pressed", String(on));
    try { localStorage.setItem("memalign-focus", on ? "1" : ""); } catch { /* private windows have no store */ }
  };
  const focused = () => { try { return localStorage.getItem("memalign-focus") === "1"; } catch { return false; } };

  // -- the next case is here already ------------------------------------------------------------------------------
  const goOn = () => {
    const ahead = doc.querySelector("template#ahead");
    const card = doc.getElementById("card");
    if (!ahead || !card || !ahead.content.querySelector("#card")) return false;
    const next = ahead.content.querySelector("#card").cloneNode(true);
    ahead.innerHTML = "";
    card.replaceWith(next);
    htmx.process(next);
    window.scrollTo({ top: 0 });
    next.focus({ preventScroll: true });
    announce(next.dataset.announce || "");
    fetchAhead(next);
    return true;
  };
  const fetchAhead = async (card) => {
    const ahead = doc.querySelector("template#ahead");
    if (!ahead || !card.dataset.next) return;
    try {
      const answer = await fetch(card.dataset.next, { headers: { "HX-Request": "true" } });
      if (answer.ok) ahead.innerHTML = await answer.text();
    } catch { /* the link of the button still works */ }
  };

  const announce = (text) => { const live = doc.getElementById("live"); if (live) live.textContent = text; };

  doc.addEventListener("click", (event) => {
    const next = event.target.closest("[data-go-on]");
    if (next && goOn()) { event.preventDefault(); return; }
    const toggle = event.target.closest("[data-focus-mode]");
    if (toggle) { setFocus(!doc.documentElement.hasAttribute("data-focus")); return; }
    const offered = event.target.closest("[data-use-words]");
    if (offered) {
      const area = doc.querySelector("#card textarea[name=rationale]");
      if (area) { area.value = offered.dataset.useWords; area.focus(); }
    }
  });
  doc.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
  doc.addEventListener("submit", (event) => {
    const asked = event.submitter && event.submitter.dataset.ask || event.target.dataset.ask;
    if (asked && !window.confirm(asked)) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);

  // -- answers that could not be sent are kept here until they are ------------------------------------------------
  const unsaved = () => { try { return JSON.parse(localStorage.getItem(KEPT) || "{}"); } catch { return {}; } };
  const keep = (all) => { try { localStorage.setItem(KEPT, JSON.stringify(all)); } catch { /* see above */ } };
  const drop = (form) => { const all = unsaved(); delete all[form]; keep(all); tell(); };
  const tell = () => {
    const line = doc.getElementById("line");
    if (line) line.hidden = !Object.values(unsaved()).some((each) => each.failed);
  };
  const formOf = (event) => {
    const given = event.detail.requestConfig && event.detail.requestConfig.parameters;
    const value = given && (given instanceof FormData ? given.get("form") : given.form);
    return event.detail.elt && event.detail.elt.matches("form[data-answer]") ? value : null;
  };

  doc.addEventListener("htmx:beforeRequest", (event) => {
    const form = formOf(event);
    if (!form) return;
    const given = event.detail.requestConfig.parameters;
    const body = new URLSearchParams();
    const entries = given instanceof FormData ? given.entries() : Object.entries(given);
    for (const [name, value] of entries) body.append(name, value);
    const all = unsaved();
    all[form] = { to: event.detail.elt.getAttribute("hx-post"), body: body.toString(), at: Date.now() };
    keep(all);
  });
  doc.addEventListener("htmx:afterRequest", (event) => {
    const form = formOf(event);
    if (!form) return;
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    if (status >= 200 && status < 500) { drop(form); return; }
    const all = unsaved();
    if (all[form]) { all[form].failed = true; keep(all); }
    tell();
  });
  let sending = false;
  const sendAgain = async () => {
    if (sending) return;
    sending = true;
    try {
      for (const [form, kept] of Object.entries(unsaved())) {
        if (!kept.failed && Date.now() - kept.at < 20000) continue;
        const answer = await fetch(kept.to, {
          method: "POST", body: kept.body,
          headers: { "Content-Type": "application/x-www-form-urlencoded", "HX-Request": "true", "X-CSRF-Token": csrf() },
        });
        if (answer.status >= 500) break;
        if (answer.status === 401 || answer.status === 403) break;
        drop(form);
        const card = doc.getElementById("card");
        const field = card && card.querySelector(`input[name=form][value="${CSS.escape(form)}"]`);
        if (field && answer.ok) {
          const holder = doc.createElement("div");
          holder.innerHTML = await answer.text();
          const next = holder.querySelector("#card");
          if (next) { card.replaceWith(next); htmx.process(next); }
        }
      }
    } catch { /* still no line */ } finally { sending = false; tell(); }
  };
  const csrf = () => { const meta = doc.querySelector("meta[name=csrf]"); return meta ? meta.content : ""; };
  doc.addEventListener("htmx:configRequest", (event) => { event.detail.headers["X-CSRF-Token"] = csrf(); });
  // What the server says of a wrong input is shown where the answer would be.
  doc.addEventListener("htmx:beforeSwap", (event) => {
    if ([409, 422].includes(event.detail.xhr.status)) { event.detail.shouldSwap = true; event.detail.isError = false; }
  });
  doc.addEventListener("htmx:afterSwap", () => {
    const card = doc.getElementById("card");
    if (card && card.dataset.announce) announce(card.dataset.announce);
    // The button that was pressed went with the old card: the focus must not fall back to the top of the page.
    if (card && doc.activeElement === doc.body) card.focus({ preventScroll: true });
  });

  // -- files dropped ---------------------------------------------------------------------------------------------
  const droppable = (zone) => {
    const input = zone.querySelector("input[type=file]");
    for (const kind of ["dragover", "dragenter"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.toggleAttribute("data-over", true); });
    zone.addEventListener("dragleave", () => zone.toggleAttribute("data-over", false));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.toggleAttribute("data-over", false);
      if (input && event.dataTransfer.files.length) { input.files = event.dataTransfer.files; input.form.requestSubmit(); }
    });
  };

  const start = () => {
    setFocus(focused());
    tell();
    const tab = doc.querySelector("nav a[aria-current]");
    if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
    for (const zone of doc.querySelectorAll("[data-drop]")) droppable(zone);
    sendAgain();
    window.addEventListener("online", sendAgain);
    setInterval(sendAgain, 3000);
  };
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", start); else start();
})();
