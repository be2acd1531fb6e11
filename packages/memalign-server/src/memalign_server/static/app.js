// Keys, and forms that wait for the line. No library but htmx, nothing from another host.
(() => {
  "use strict";
  const doc = document;
  const one = (selector) => doc.querySelector(selector);

  // -- keys: what has data-key is pressed by that key while no field has the focus; Enter in a field of words too ----
  const isField = (element) => element.matches("input:not([type=radio], [type=checkbox]), textarea, select");
  doc.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isField(target)) {
      if (key === "Escape") target.blur();
      if (key !== "Enter" || event.shiftKey || !target.matches("textarea[name=words]")) return;
    } else if (key === "Enter" && target.matches("a, button, summary")) return;
    const pressed = [...doc.querySelectorAll("[data-key]")].find((element) => (
      element.dataset.key === key.toLowerCase() && !element.disabled && element.offsetParent));
    if (!pressed) return;
    event.preventDefault();
    if (!event.repeat) pressed.click(); // a key that is held down is pressed once
  });

  // -- forms with data-kept, answers and words: kept here under the person's id until the server has them ------------
  // Each may be sent twice: the server knows an answer by its form, and joins the words that it has with what comes.
  const PERSON = one("meta[name=person]")?.content || "";
  const STORE = `memalign-unsaved:${PERSON}`;
  let store = {}, tab = {}; // of this page alone, where the browser has none
  try { [store, tab] = [localStorage, sessionStorage]; } catch { /* it is forbidden */ }
  const [TYPED, AGAIN, ON_ITS_WAY] = [600, 3000, 20000]; // milliseconds
  const WHY = { 0: "connection", 401: "session", 403: "refused", 413: "large", 429: "often" };
  const WAIT = { connection: AGAIN, problem: AGAIN, often: 5 * AGAIN }; // the others wait until a page is loaded
  let refusal = null; // what is shown although nothing waits any more: {why, words}
  let slow = 0;

  // The form's id -> {to, fields, next: when it is sent, by: the window that sends and shows it, why it waits}
  const WINDOW = Math.random();
  const unsaved = () => JSON.parse(store[STORE] || "{}");
  const change = (what) => {
    const all = unsaved();
    what(all);
    if (Object.keys(all).length) store[STORE] = JSON.stringify(all); else delete store[STORE];
    showState(Object.values(all));
  };
  const showState = (entries) => {
    const why = entries.map((entry) => entry.why).find(Boolean) || refusal?.why;
    for (const span of doc.querySelectorAll("#line [data-why]")) span.hidden = span.dataset.why !== why;
    one("#line [data-why=said]").textContent = refusal?.words || "";
    one("#line").hidden = !why;
    clearTimeout(slow);
    if (entries.length) slow = setTimeout(() => doc.documentElement.setAttribute("data-saving", ""), 1000);
    else doc.documentElement.removeAttribute("data-saving");
  };
  const keep = (form, button, delay, more) => {
    const fields = { ...Object.fromEntries(new FormData(form, button)), ...more };
    refusal = null;
    const to = form.getAttribute("action");
    change((all) => { all[fields.form] = { to, fields, by: WINDOW, next: Date.now() + delay }; });
  };
  const formOf = ({ to, fields }) => [...doc.querySelectorAll("form[data-kept]")].find((form) => (
    form.getAttribute("action") === to && form.elements.case.value === fields.case));

  // -- sending: one form after the other, in their order ----------------------------------------------------------
  const post = async ({ to, fields }) => {
    const body = new URLSearchParams(fields);
    const keepalive = body.toString().length < 60000; // sent even if the page goes; browsers take no more
    const how = { headers: { "HX-Request": "true" }, redirect: "error", signal: AbortSignal.timeout(15000), keepalive };
    try {
      const answer = await fetch(to, { method: "POST", body, ...how });
      const text = await answer.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      return { status: answer.status, text, page, goTo: answer.headers.get("HX-Redirect") };
    } catch { return { status: 0 }; }
  };
  // What the server answers takes its place on the page, if that still shows the case.
  const show = (entry, { status, text, page, goTo }, typedSince) => {
    const form = formOf(entry);
    const foot = page.getElementById("foot");
    if (!form) return;
    if (goTo) {
      if (!typedSince) { typing = null; window.location.assign(goTo); }
    } else if (foot) {
      one("#foot").replaceWith(foot);
      htmx.process(foot);
      arrive();
    } else if (status < 400) showWords(entry, form, JSON.parse(text), typedSince);
  };
  // The words are the server's, if another window has typed too.
  const showWords = ({ fields }, form, { words, revision }, typedSince) => {
    const field = form.elements.words;
    if (words === fields.words || field.value === fields.words) form.elements.revision.value = revision;
    if (field.value === fields.words) field.value = words;
    if (!typedSince) one("#foot").dataset.words = "saved";
  };
  const send = async (id, entry) => {
    change((all) => { if (all[id]) all[id].next = Date.now() + ON_ITS_WAY; });
    const answer = await post(entry);
    const why = answer.status >= 500 ? "problem" : WHY[answer.status];
    const isSent = (now) => JSON.stringify(now?.fields) === JSON.stringify(entry.fields);
    if (!why) show(entry, answer, !isSent(unsaved()[id]));
    const refused = !why && answer.status >= 400 && !answer.page.getElementById("foot");
    if (refused && answer.status === 410) refusal = { why: "gone" };
    else if (refused) refusal = { why: "said", words: answer.page.querySelector("[role=alert]")?.textContent };
    change((all) => {
      if (why && all[id]) Object.assign(all[id], { why, by: WINDOW, next: Date.now() + (WAIT[why] || 1e12) });
      else if (refused || isSent(all[id])) delete all[id];
      else if (all[id]) all[id].fields.revision = formOf(entry)?.elements.revision.value ?? entry.fields.revision;
    });
  };
  let queue = Promise.resolve();
  const sendDue = () => {
    queue = queue.then(async () => {
      const isDue = ({ by, next }) => next + (by === WINDOW ? 0 : 2 * AGAIN) <= Date.now(); // another may be closed
      const due = Object.entries(PERSON ? unsaved() : {}).filter(([, entry]) => isDue(entry));
      for (const [id, entry] of due) await send(id, entry);
    }).catch(() => {});
  };
  doc.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-kept]") || !PERSON) return;
    event.preventDefault();
    const before = unsaved()[form.elements.form.value];
    if (before && !form.elements.words && before.next > Date.now() + AGAIN) return; // its answer is on its way
    keep(form, event.submitter, 0);
    sendDue();
  });
  let typing = null, pause = 0;
  doc.addEventListener("input", ({ target }) => {
    if (target.matches("[data-kept] textarea[name=value]")) tab[typedAnswer(target.form)] = target.value;
    if (!target.matches("[data-kept] textarea[name=words]")) return;
    typing = target.form;
    delete one("#foot").dataset.words;
    keep(typing, null, TYPED);
    clearTimeout(pause);
    pause = setTimeout(sendDue, TYPED + 10);
  });
  // Where an answer in words is until it is saved: in its tab, from where nothing sends it.
  const typedAnswer = (form) => `memalign-typed:${PERSON}:${window.location.pathname}:${form.elements.case.value}`;
  // Whoever leaves waits for nothing: the browser sends the words after the page is gone, and they are the answer's.
  const leave = () => { if (typing?.isConnected) { keep(typing, null, 0, { go: "leave" }); sendDue(); } };
  doc.addEventListener("visibilitychange", () => { if (doc.visibilityState === "hidden") leave(); });
  window.addEventListener("pagehide", leave);

  // -- a foot that arrives has the server's words: what was typed since comes with it ----------------------------
  const arrive = () => {
    const foot = one("#foot");
    if (!foot) return;
    if (foot.dataset.here) window.history.replaceState(null, "", foot.dataset.here);
    for (const entry of Object.values(unsaved())) {
      const field = formOf(entry)?.elements.words;
      if (field && "words" in entry.fields) field.value = entry.fields.words;
    }
    const answer = foot.querySelector("textarea[name=value]");
    if (answer) answer.value = tab[typedAnswer(answer.form)] ?? answer.value;
    else if (foot.matches(".turned")) delete tab[typedAnswer(foot.querySelector("form"))];
    if (foot.dataset.announce) one("#live").textContent = foot.dataset.announce;
    const free = doc.activeElement === doc.body || doc.activeElement.closest("#foot, .head");
    if (free) foot.querySelector("[autofocus]")?.focus({ preventScroll: true });
  };
  doc.addEventListener("htmx:afterSwap", arrive);

  // -- Set up: a link that is copied, a receipt that is printed ---------------------------------------------------
  doc.addEventListener("click", ({ target }) => {
    const copy = target.closest("[data-copy]");
    if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = copy.dataset.copied; });
    else if (target.closest("[data-print]")) window.print();
  });

  // -- times in the reader's zone, in the language of the page ----------------------------------------------------
  const DAY = { year: "numeric", month: "short", day: "numeric" };
  const TIME = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  doc.addEventListener("htmx:load", ({ target }) => {
    const format = new Intl.DateTimeFormat(doc.documentElement.lang, { ...DAY, ...TIME });
    for (const time of target.querySelectorAll("time")) time.textContent = format.format(new Date(time.dateTime));
  });

  const start = () => {
    arrive();
    change((all) => { for (const entry of Object.values(all)) Object.assign(entry, { why: undefined, next: 0 }); });
    sendDue();
    window.addEventListener("online", sendDue);
    setInterval(sendDue, AGAIN / 3);
  };
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", start); else start();
})();
