// The status page. Names of tables and clients, and texts of errors, come from outside:
// they are set as text, never as markup.
'use strict';

(() => {
  const interval = 1000; // between two polls, in milliseconds
  const patience = 5000; // for one poll
  const span = 5000; // over which rates are taken
  const quantiles = [['p50', 'p50'], ['p95', 'p95'], ['p99', 'p99'], ['p999', 'p99.9']];
  // From the worst to the best: the order of the hosts, with the sign of each state.
  const states = [['ejected', '✕'], ['suspect', '▲'], ['probing', '◐'], ['slow_start', '◔'], ['healthy', '●'], ['remote', '○'], ['no_tokens', '○']];

  const $ = (id) => document.getElementById(id);
  let samples = []; // snapshots of the last seconds, the oldest first
  let table = ''; // whose latency is drawn
  let chosen = false; // by the user, not by us
  let historyOf = ''; // the table that the last answer has the history of
  let lostSince = null;
  let configHash = null;
  let drawn = {}; // what svgs were drawn from

  // Writing only what has changed keeps a selection and the place of a screen reader.
  const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };
  const attribute = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
  const make = (name, attributes, content) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (content !== undefined) node.textContent = content;
    return node;
  };
  const element = (name, className, content) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (content !== undefined) node.textContent = content;
    return node;
  };

  const number = (x) => {
    if (x === null || x === undefined || !isFinite(x)) return '–';
    if (x === 0) return '0';
    const a = Math.abs(x);
    if (a >= 1e6) return (x / 1e6).toFixed(a >= 1e7 ? 0 : 1) + ' M';
    if (a >= 1e4) return (x / 1e3).toFixed(a >= 1e5 ? 0 : 1) + ' k';
    return x.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2);
  };
  // whole is of what is counted, short of what is configured: neither has digits that
  // it does not need.
  const whole = (x) => (isFinite(x) && x !== null && Math.abs(x) < 1e4 ? String(Math.round(x)) : number(x));
  const short = (x) => String(Math.round(x * 1000) / 1000);
  // plain shows characters that cannot be seen, or that turn a text around, as such.
  const plain = (s) => String(s).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');
  const duration = (seconds) => {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 120) return s + ' s';
    if (s < 7200) return Math.floor(s / 60) + ' min';
    if (s < 172800) return Math.floor(s / 3600) + ' h';
    return Math.floor(s / 86400) + ' d';
  };
  const clock = (date) => new Date(date).toLocaleTimeString([], { hour12: false });
  const state = (name) => states.find((s) => s[0] === name) || [String(name).replace(/[^a-z_]/g, ''), '?'];
  const words = (name) => state(name)[0].replaceAll('_', ' ');

  // rate is how fast a count grew over the last seconds; null before it is known.
  const rate = (count) => {
    if (samples.length < 2) return null;
    const first = samples[0], last = samples[samples.length - 1];
    const before = count(first), after = count(last);
    const seconds = (Date.parse(last.time) - Date.parse(first.time)) / 1000;
    if (before === undefined || after === undefined || after < before || seconds <= 0) return null;
    return (after - before) / seconds;
  };
  const byName = (list, name) => (list || []).find((x) => x.name === name);
  const rateOf = (list, name, field) => rate((s) => { const x = byName(s[list], name); return x ? x[field] : list === 'hosts' ? undefined : 0; });
  const hostRate = (address, field) => rate((s) => { const h = s.hosts.find((x) => x.address === address); return h ? h[field] : undefined; });

  // fill sets the rows of a table. A cell is a text, or {text, className, small}.
  const fill = (id, rows, empty) => {
    const body = $(id).tBodies[0];
    if (rows.length === 0) rows = [[{ text: empty, head: true }]];
    rows.forEach((cells, i) => {
      let row = body.rows[i] || body.insertRow();
      while (row.cells.length > cells.length) row.deleteCell(-1);
      cells.forEach((cell, j) => {
        const c = typeof cell === 'string' ? { text: cell } : cell;
        let node = row.cells[j];
        if (!node) {
          node = document.createElement(j === 0 ? 'th' : 'td');
          if (j === 0) node.scope = 'row';
          node.append(document.createElement('bdi'), document.createElement('small'));
          row.append(node);
        }
        if (node.className !== (c.className || '')) node.className = c.className || '';
        text(node.firstChild, plain(c.text));
        text(node.lastChild, plain(c.small || ''));
      });
    });
    while (body.rows.length > rows.length) body.deleteRow(-1);
  };
  const w = (value) => ({ text: whole(value), className: 'n' });
  const n = (value, bad) => ({ text: number(value), className: bad ? 'n bad' : 'n' });

  // avoidedHosts counts the hosts that are not asked as usual, by state, the worst first.
  const avoidedHosts = (s) => states.slice(0, 3).map(([name]) => {
    const count = s.hosts.filter((h) => h.state === name).length;
    return count && `${count} ${count === 1 ? 'host' : 'hosts'} ${words(name)}`;
  }).filter(Boolean).join(', ');

  const drawHeader = (s) => {
    text($('version'), s.version || '');
    const badge = $('ready');
    const well = s.ready && lostSince === null;
    const avoided = avoidedHosts(s);
    text(badge, lostSince !== null ? '✕ not reached' : !well ? '✕ not ready: ' + (s.reason || 'unknown') : avoided ? '▲ ready, ' + avoided : '● ready');
    badge.className = 'badge ' + (!well ? 'bad' : avoided ? 'warn' : 'good');
    text($('uptime'), 'up ' + duration((Date.parse(s.time) - Date.parse(s.started)) / 1000));
    document.title = (well ? '' : '✕ ') + 'qosproxy';
    const notice = $('notice');
    const said = [];
    if (s.config.error) said.push('The configuration files are not in use as they are: ' + s.config.error);
    if ((s.config.need_restart || []).length) said.push('These keys take effect after a restart: ' + s.config.need_restart.join(', '));
    notice.hidden = said.length === 0;
    text(notice, said.join(' '));
  };

  const drawChoice = (s) => {
    const select = $('table');
    const names = s.tables.filter((t) => t.promise).map((t) => t.name);
    if (!chosen || !names.includes(table)) {
      chosen = false;
      let most = -1;
      for (const t of s.tables) if (t.promise && t.promise['5m'].count > most) { most = t.promise['5m'].count; table = t.name; }
      if (most < 0) table = '';
      if (most > 0) chosen = true; // stays, once there is one to look at
    }
    const same = select.options.length === names.length && names.every((name, i) => select.options[i].value === name);
    if (!same) select.replaceChildren(...names.map((name) => { const o = element('option', '', plain(name)); o.value = name; return o; }));
    if (select.value !== table) select.value = table;
    select.disabled = names.length === 0;
  };

  const drawFigures = (s) => {
    const t = byName(s.tables, table);
    const p = t && t.promise;
    text($('promise'), p
      ? `${short(p.percentile)} % of the lookups within ${short(p.target_ms)} ms; in normal operation p${short(p.percentile)} at ${short(p.operate_at_ms)} ms. Percentiles are of the last 20 s.`
      : 'No table can be read: list them under tables in the configuration.');
    const figures = [];
    for (const [key, name] of quantiles) {
      const now = p && p.now.count > 0 ? p.now[key + '_ms'] : null;
      const percentile = Number(name.slice(1));
      // Only what the SLO covers can miss it.
      const over = now !== null && p && percentile <= p.percentile && now > p.target_ms;
      figures.push([name, number(now), 'ms' + (over ? ' ▲ over' : ''), key + (over ? ' over' : '')]);
    }
    figures.push(['in time, 5 min', p ? number(p['5m'].ratio * 100) : '–', '%', p && p['5m'].burn_rate > 1 ? 'over' : '']);
    figures.push(['burn rate, 5 min', p ? number(p['5m'].burn_rate) : '–', '×', p && p['5m'].burn_rate > 1 ? 'over' : '']);
    figures.push(['lookups/s, all tables', number(rate((x) => x.total.lookups)), '', '']);
    figures.push(['keys/s, all tables', number(rate((x) => x.total.keys)), '', '']);
    if (s.admission) figures.push(['keys in-flight, of limit', whole(s.admission.inflight_keys), '/ ' + (s.admission.enabled ? whole(s.admission.limit_keys) : '∞'), '']);
    const list = $('figures');
    figures.forEach(([name, value, unit, className], i) => {
      let box = list.children[i];
      if (!box) {
        box = element('div');
        const dd = element('dd');
        dd.append(element('span'), ' ', element('small'));
        box.append(element('dt'), dd);
        list.append(box);
      }
      if (box.className !== className) box.className = className;
      text(box.firstChild, name);
      text(box.lastChild.firstChild, value);
      text(box.lastChild.lastChild, unit);
    });
    while (list.children.length > figures.length) list.lastChild.remove();
  };

  // drawChart draws the last five minutes, on a logarithmic scale: the median and the
  // tail are decades apart.
  const drawChart = (s) => {
    const svg = $('chart');
    const t = byName(s.tables, table);
    const p = t && t.promise;
    const history = (p && p.history) || [];
    const width = Math.max(280, Math.round(svg.clientWidth) || 800), height = width < 500 ? 200 : 240;
    const signature = JSON.stringify([table, historyOf, width, history, p && p.target_ms, p && p.operate_at_ms]);
    if (drawn.chart === signature) return;
    drawn.chart = signature;
    attribute(svg, 'viewBox', `0 0 ${width} ${height}`);
    const parts = [];
    const left = 50, right = width - 78, top = 12, bottom = height - 22;
    const end = Date.parse(s.time), begin = end - 300e3;
    const values = history.flatMap((h) => quantiles.map(([key]) => h[key + '_ms'])).filter((v) => v > 0);
    if (p) values.push(p.target_ms, p.operate_at_ms);
    const low = Math.min(1, ...values) * 0.8, high = Math.max(10, ...values) * 1.25;
    const x = (time) => left + (Math.max(begin, time) - begin) / (end - begin) * (right - left);
    const y = (v) => bottom - (Math.log(Math.max(v, low)) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (bottom - top);
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++) {
      const v = 10 ** decade;
      if (v < low || v > high) continue;
      parts.push(make('line', { class: 'grid', x1: left, x2: right, y1: y(v), y2: y(v) }));
      parts.push(make('text', { class: 'axis', x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, v >= 1000 ? v / 1000 + ' s' : v + ' ms'));
    }
    for (const minute of width < 500 ? [4, 2, 0] : [5, 4, 3, 2, 1, 0]) {
      const at = x(end - minute * 60e3);
      parts.push(make('text', { class: 'axis', x: at, y: height - 6, 'text-anchor': minute === 0 ? 'end' : minute === 5 ? 'start' : 'middle' }, minute === 0 ? 'now' : minute + ' min'));
    }
    const labels = [];
    if (p) {
      for (const [v, name, word] of [[p.target_ms, 'target', 'SLA'], [p.operate_at_ms, 'operate', 'operate']]) {
        parts.push(make('line', { class: name, x1: left, x2: right, y1: y(v), y2: y(v) }));
        labels.push({ y: y(v), name: 't-' + name, word });
      }
    }
    for (const [key, word] of quantiles) {
      // A pause of more than a slice is a gap in the line.
      let runs = [], previous = null;
      for (const h of history) {
        const time = Date.parse(h.time) + 5000;
        if (h[key + '_ms'] <= 0) continue;
        if (previous === null || time - previous > 15e3) runs.push([]);
        runs[runs.length - 1].push([x(Math.min(time, end)), y(h[key + '_ms'])]);
        previous = time;
      }
      for (const run of runs) {
        if (run.length === 1) parts.push(make('circle', { class: 'd-' + key, cx: run[0][0].toFixed(1), cy: run[0][1].toFixed(1), r: 2.5 }));
        else parts.push(make('polyline', { class: 'line s-' + key, points: run.map((q) => q[0].toFixed(1) + ',' + q[1].toFixed(1)).join(' ') }));
      }
      if (runs.length) labels.push({ y: runs[runs.length - 1].at(-1)[1], name: 't-' + key, word });
    }
    // Labels beside the ends of their lines, moved apart.
    labels.sort((a, b) => a.y - b.y);
    for (let i = 1; i < labels.length; i++) labels[i].y = Math.max(labels[i].y, labels[i - 1].y + 12);
    const over = labels.length ? Math.max(0, labels.at(-1).y - bottom) : 0;
    for (let i = labels.length - 1, limit = bottom; over > 0 && i >= 0; i--) { labels[i].y = Math.min(labels[i].y, limit); limit = labels[i].y - 12; }
    for (const l of labels) parts.push(make('text', { class: l.name, x: right + 6, y: l.y + 4 }, l.word));
    if (p && historyOf === table && history.length === 0) parts.push(make('text', { class: 'axis', x: (left + right) / 2, y: (top + bottom) / 2, 'text-anchor': 'middle' }, 'no lookups in the last five minutes'));
    svg.replaceChildren(...parts);
    const m = p && p.now;
    text($('chart-text'), m && m.count > 0
      ? `Last five minutes in steps of 10 s. Over the last 20 s ${whole(m.count)} lookups: ` + quantiles.map(([key, word]) => `${word} ${number(m[key + '_ms'])} ms`).join(', ') + `; SLA ${short(p.target_ms)} ms.`
      : 'Last five minutes in steps of 10 s.');
  };

  const ranked = (hosts) => [...hosts].sort((a, b) => states.findIndex((x) => x[0] === a.state) - states.findIndex((x) => x[0] === b.state));

  // drawRing draws each host as an arc as long as its share.
  const drawRing = (s) => {
    const signature = JSON.stringify(s.hosts.map((h) => [h.address, h.share, h.state, h.rack]));
    if (drawn.ring === signature) return;
    drawn.ring = signature;
    const parts = [];
    const outer = 98, inner = 62;
    const at = (radius, turn) => [radius * Math.sin(turn * 2 * Math.PI), -radius * Math.cos(turn * 2 * Math.PI)].map((v) => v.toFixed(2)).join(' ');
    let turn = 0;
    for (const h of s.hosts) {
      if (!(h.share > 0)) continue;
      // An arc that ends where it begins would not be drawn.
      const until = turn + Math.min(h.share, 0.9999), large = until - turn > 0.5 ? 1 : 0;
      const arc = make('path', {
        class: 'arc f-' + state(h.state)[0],
        d: `M${at(outer, turn)}A${outer} ${outer} 0 ${large} 1 ${at(outer, until)}L${at(inner, until)}A${inner} ${inner} 0 ${large} 0 ${at(inner, turn)}Z`,
      });
      arc.append(make('title', {}, `${h.address}, ${h.dc} ${h.rack}: ${(h.share * 100).toFixed(1)} % of the ring, ${words(h.state)}`));
      parts.push(arc);
      if (h.share >= 0.045) {
        const [cx, cy] = at((outer + inner) / 2, turn + h.share / 2).split(' ');
        parts.push(make('text', { class: 'label', x: cx, y: Number(cy) - 1 }, state(h.state)[1]));
        parts.push(make('text', { class: 'label', x: cx, y: Number(cy) + 8 }, short(Math.round(h.share * 1000) / 10) + ' %'));
      }
      turn += h.share;
    }
    const own = s.hosts.filter((h) => h.state !== 'remote' && h.state !== 'no_tokens');
    const well = own.filter((h) => h.state === 'healthy').length;
    if (parts.length === 0) parts.push(make('circle', { class: 'grid', r: (outer + inner) / 2, fill: 'none' }));
    parts.push(make('text', { class: 'middle', y: 0 }, s.hosts.length ? `${well} of ${own.length}` : 'no ring'));
    parts.push(make('text', { class: 'under', y: 13 }, s.hosts.length ? 'hosts healthy' : 'yet'));
    $('ring').replaceChildren(...parts);
    const notHealthy = ranked(own).filter((h) => h.state !== 'healthy').map((h) => `${h.address} ${words(h.state)}`);
    const active = ((s.ring && s.ring.datacenters) || []).find((d) => d.active);
    const away = active && active.dc !== s.ring.local_dc ? `Keys are read in ${active.dc}: no host of ${s.ring.local_dc} can be reached. ` : '';
    text($('ring-text'), s.ring ? away + `${s.ring.local_dc || 'one datacenter'}, share of the token ring before replication. ` + (notHealthy.length ? notHealthy.join(', ') + '.' : 'All hosts are healthy.') : 'The cluster is not known yet.');
  };

  const drawHosts = (s) => fill('hosts', ranked(s.hosts).map((h) => [
    { text: h.address, small: h.dc + ' ' + h.rack },
    {
      text: state(h.state)[1] + ' ' + words(h.state), className: 'c-' + state(h.state)[0],
      small: h.state === 'ejected' && h.probe_in_ms > 0 ? ` probe in ${number(h.probe_in_ms / 1000)} s` : h.failures > 0 ? ` ${h.failures} failures` : '',
    },
    { text: (h.share * 100).toFixed(1) + ' %', className: 'n' },
    w(h.inflight_keys), n(h.latency_ms), n(h.oldest_ms),
    n(hostRate(h.address, 'sub_queries')), n(hostRate(h.address, 'hedged_away')), n(hostRate(h.address, 'hedges')),
  ]), 'No host is known yet.');

  const busiest = (list, of) => [...list].sort((a, b) => (rateOf(of, b.name, 'lookups') || 0) - (rateOf(of, a.name, 'lookups') || 0) || b.lookups - a.lookups);
  const top = 25;

  const drawTables = (s) => {
    fill('tables', busiest(s.tables, 'tables').slice(0, top).map((t) => {
      const p = t.promise, failed = rateOf('tables', t.name, 'failed');
      const late = p && p.now.count > 0 && p.now.p95_ms > p.target_ms;
      const q = t.quorum_reads;
      const read = q ? ` quorum by replicas, ${(q.read_again_ratio * 100).toFixed(1)} % read again` + (q.closed ? `; not now: ${q.closed}` : '') : '';
      return [{ text: t.name, small: read }, n(rateOf('tables', t.name, 'lookups')), n(p && p.now.count > 0 ? p.now.p95_ms : null, late), { text: p ? short(p.target_ms) : '–', className: 'n' },
        n(p ? p['5m'].burn_rate : null, p && p['5m'].burn_rate > 1), n(rateOf('tables', t.name, 'keys')), n(failed, failed > 0),
        n(t.group_size || null), n(t.statement_cost_ms || null), n(t.key_cost_ms || null), t.gives_up || 'nothing'];
    }), 'No table can be read.');
    fill('clients', busiest(s.clients, 'clients').slice(0, top).map((c) => {
      const failed = rateOf('clients', c.name, 'failed');
      return [c.name, n(rateOf('clients', c.name, 'lookups')), n(rateOf('clients', c.name, 'keys')), n(failed, failed > 0), w(c.lookups)];
    }), 'Nobody has asked yet.');
  };

  const drawErrors = (s) => {
    const signature = JSON.stringify(s.errors);
    if (drawn.errors === signature) return;
    drawn.errors = signature;
    $('no-errors').hidden = s.errors.length > 0;
    $('errors').replaceChildren(...s.errors.map((e) => {
      const item = element('li'), time = element('time', '', clock(e.last));
      time.dateTime = e.last;
      time.title = 'first ' + new Date(e.first).toLocaleString() + ', last ' + new Date(e.last).toLocaleString();
      const what = element('div', 'what'), whose = [e.table && 'of ' + e.table, e.client && 'by ' + e.client].filter(Boolean).join(' ');
      what.append(element('bdi', e.level === 'error' ? 'c-ejected' : '', plain(e.message)));
      if (e.reason) what.append(' ', element('bdi', '', plain(e.reason)));
      if (e.host) what.append(' ', element('bdi', '', 'host ' + plain(e.host)));
      if (whose) what.append(' ', element('bdi', '', plain(whose)));
      if (e.detail) what.append(' ', element('small', '', plain(e.detail)));
      if (e.trace_id) what.append(' ', element('small', '', 'trace ' + e.trace_id));
      item.append(time, element('span', 'times', whole(e.count) + ' ×'), what);
      return item;
    }));
  };

  const drawConfig = (s) => {
    const c = s.config;
    text($('config-state'), [c.file ? 'From ' + c.file : 'Defaults and environment', 'read ' + new Date(c.loaded).toLocaleString(), c.hash ? 'hash ' + c.hash : ''].filter(Boolean).join(', '));
    if ($('config').open && configHash !== c.hash) loadConfig(c.hash);
  };
  const loadConfig = async (hash) => {
    configHash = hash;
    try {
      const answer = await fetch('status/config', { cache: 'no-store', signal: AbortSignal.timeout(patience) });
      if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText);
      text($('config-text'), await answer.text());
    } catch (problem) {
      configHash = null; // once more at the next poll
      text($('config-text'), 'It could not be read: ' + problem.message);
    }
  };

  const draw = () => {
    const s = samples.at(-1);
    if (!s) return;
    drawHeader(s); drawChoice(s); drawFigures(s); drawChart(s); drawRing(s); drawHosts(s); drawTables(s); drawErrors(s); drawConfig(s);
  };

  const found = (s) => {
    if (samples.length && samples[0].started !== s.started) samples = []; // another process
    if (samples.length && samples.at(-1).time === s.time) samples.pop(); // answers within half a second are the same
    samples.push(s);
    const newest = Date.parse(s.time);
    while (samples.length > 2 && newest - Date.parse(samples[1].time) >= span) samples.shift();
    lostSince = null;
    $('lost').hidden = true;
    document.body.classList.remove('stale');
    draw();
  };
  const lost = (problem) => {
    if (lostSince === null) lostSince = samples.length ? Date.parse(samples.at(-1).time) : Date.now();
    const why = problem.name === 'TimeoutError' ? `no answer within ${patience / 1000} s` : problem.message;
    const banner = $('lost');
    banner.hidden = false;
    text(banner, `The proxy cannot be reached since ${clock(lostSince)} (${why}). ` + (samples.length ? 'What you see is of that time. ' : '') + 'Trying again every second.');
    document.body.classList.add('stale');
    document.title = '✕ qosproxy';
    text($('ready'), '✕ not reached');
    $('ready').className = 'badge bad';
  };

  const poll = async () => {
    try {
      if (document.hidden) return;
      const asked = table;
      let s;
      try {
        const answer = await fetch('status/live' + (asked ? '?history=' + encodeURIComponent(asked) : ''), { cache: 'no-store', signal: AbortSignal.timeout(patience) });
        if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText);
        s = await answer.json();
      } catch (problem) {
        lost(problem);
        return;
      }
      historyOf = asked;
      found(s); // a mistake in drawing is not an unreachable proxy
    } finally {
      // The first answer says which table there is to draw.
      setTimeout(poll, samples.length === 1 && lostSince === null ? 100 : interval);
    }
  };

  $('table').addEventListener('change', (event) => { table = event.target.value; chosen = true; drawn.chart = null; draw(); });
  $('config').addEventListener('toggle', () => { const s = samples.at(-1); if (s && $('config').open) { configHash = null; drawConfig(s); } });
  addEventListener('resize', () => { drawn.chart = null; draw(); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) samples = samples.slice(-1); });
  poll();
})();
