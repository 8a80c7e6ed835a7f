"use strict";
(() => {
  const local = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "short"});
  const ofUtc = !new Date().getTimezoneOffset();
  function spell(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-utc])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.dataset.utc = time.textContent;
      if (time.classList.contains("ago")) time.title = ofUtc ? time.title : local.format(at) + " (" + time.title + ")";
      else if (!ofUtc) time.textContent = local.format(at) + " (" + time.dataset.utc + ")";
    }
  }
  spell(document);
  function reveal() {
    const there = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (there instanceof HTMLDetailsElement) there.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();

  const seconds = Number(document.documentElement.dataset.again);
  if (!seconds) return;
  let tag = "", waiting = 0, failed = 0;
  const status = document.getElementById("live");
  function replace(text) {
    const made = new DOMParser().parseFromString(text, "text/html");
    const main = document.querySelector("main"), next = made.querySelector("main");
    if (!next) return;
    for (const details of main.querySelectorAll("details[id]")) {
      const same = next.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = details.open;
    }
    const held = main.contains(document.activeElement) ? place(main, document.activeElement) : null;
    main.replaceChildren(...next.childNodes);
    spell(main);
    if (held !== null) find(main, held)?.focus({preventScroll: true});
    document.title = made.title;
    document.documentElement.dataset.again = made.documentElement.dataset.again;
    const top = document.querySelector("#under"), above = made.querySelector("#under");
    if (top && above) { top.replaceChildren(...above.childNodes); spell(top); }
  }
  const FOCUSABLE = "a[href], button, summary, textarea, input";
  const place = (main, element) => {
    const say = element.getAttribute("href") || element.closest("[id]")?.id || "";
    return {say, kind: element.tagName, nth: [...main.querySelectorAll(FOCUSABLE)].indexOf(element)};
  };
  const find = (main, was) => {
    const all = [...main.querySelectorAll(FOCUSABLE)];
    const alike = each => each.tagName === was.kind && (each.getAttribute("href") || each.closest("[id]")?.id || "") === was.say;
    return all[was.nth] && alike(all[was.nth]) ? all[was.nth] : all.find(alike);
  };
  async function look() {
    try {
      const answer = await fetch(location.href, {headers: tag ? {"If-None-Match": tag} : {}, cache: "no-store", redirect: "error"});
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        replace(await answer.text());
      } else if (answer.status !== 304) throw new Error(String(answer.status));
      failed = 0;
      const at = document.querySelector("#as-of time");
      if (at) { at.dateTime = new Date().toISOString(); at.textContent = new Date().toISOString().slice(0, 19).replace("T", " ") + " UTC"; delete at.dataset.utc; spell(at.parentElement); }
      status.textContent = "";
    } catch (error) {
      failed += 1;
      status.textContent = "What is shown here is old: the server did not answer (" + error.message + ").";
    }
    again();
  }
  function again() {
    clearTimeout(waiting);
    const next = Number(document.documentElement.dataset.again);
    if (next && !document.hidden) waiting = setTimeout(look, 1000 * next * Math.min(2 ** failed, 20));
  }
  document.addEventListener("visibilitychange", () => { clearTimeout(waiting); if (!document.hidden) look(); });
  again();
})();
