// Charts of a report as options of Apache ECharts. The page in a browser and the
// images for a README are drawn by this one file; the latter runs in Go.
'use strict';

const qosproxyCharts = (() => {
  // The colours of light and dark pair up by position: an image is drawn in light
  // and repainted by a style sheet. So no two colours of light may be equal.
  const themes = {
    light: {
      card: '#ffffff', ink: '#1f2329', faint: '#59616b', grid: '#e3e6ea', mark: '#c9252d', whisker: '#171a1e',
      shades: ['#a9c6e8', '#5b8fd0', '#2f68b0'],
      palette: ['#d9722e', '#b8860b', '#b4589c', '#4f7f2f', '#1f6fc4', '#0f9488', '#6a5acd', '#7a6652'],
    },
    dark: {
      card: '#15181c', ink: '#e8eaed', faint: '#a2a9b3', grid: '#2c3138', mark: '#ff6b6b', whisker: '#f4f6f8',
      shades: ['#2f5486', '#4a7dc4', '#86b2e8'],
      palette: ['#f2955c', '#e0b53c', '#dc8ac6', '#8cc063', '#5fa8f5', '#3cc8ba', '#a69bff', '#b9a48e'],
    },
  };
  const symbols = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect', 'emptyTriangle', 'emptyDiamond'];
  // Without quotes: ECharts does not escape them in an SVG.
  const font = 'system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif';
  const barGap = '8%', barCategoryGap = '32%';
  const isBars = chart => chart.kind !== 'lines';

  const commas = whole => String(whole).replace(/\B(?=(\d{3})+$)/g, ',');

  // three writes a number with three significant digits, as the tables do.
  function three(v) {
    if (v === 0) return '0';
    if (Math.abs(v) >= 999.5) return commas(Math.round(v));
    return Math.abs(v) < 0.0001 ? v.toExponential(2) : v.toPrecision(3);
  }

  // short writes the number of an axis.
  const short = v => Math.abs(v) >= 1000 ? commas(v) : String(Number(v.toPrecision(6)));

  // x is where the point of a line stands: the number of nines of a quantile, a
  // number, or the position among the categories.
  function x(chart, i) {
    switch (chart.x_scale) {
      case 'nines': {
        const q = Number(chart.x[i]);
        return q < 1 ? -Math.log10(1 - q) : null;
      }
      case 'linear': case 'log': return Number(chart.x[i]);
      default: return i;
    }
  }

  const nines = n => n < 0.1 ? '0 %' : (100 * (1 - Math.pow(10, -n))).toFixed(n > 2 ? Math.ceil(n) - 2 : 0) + ' %';

  // drawable leaves out what a logarithmic axis cannot show.
  const drawable = (chart, v) => v === null || v === undefined || (chart.log_y && v <= 0) ? null : v;

  function categoryAxis(chart, theme, horizontal) {
    const axis = {
      type: 'category', data: chart.x, inverse: horizontal, name: horizontal ? '' : chart.x_name,
      axisTick: {show: false}, axisLine: {lineStyle: {color: theme.faint}},
      axisLabel: {color: theme.ink, fontSize: 12, hideOverlap: true, interval: horizontal ? 0 : 'auto'},
    };
    return horizontal ? axis : named(axis, theme, 28);
  }

  function pointAxis(chart, theme) {
    if (!chart.x_scale) return categoryAxis(chart, theme, false);
    const axis = {
      type: chart.x_scale === 'log' ? 'log' : 'value', name: chart.x_name, min: 'dataMin', max: 'dataMax',
      splitLine: {lineStyle: {color: theme.grid}}, axisLine: {show: true, lineStyle: {color: theme.faint}},
      axisTick: {show: false}, axisLabel: {color: theme.faint, hideOverlap: true, formatter: short},
    };
    if (chart.x_scale === 'nines') {
      const ticks = [0, -Math.log10(0.5), 1, 2, 3, 4, 5, 6];
      axis.min = 0;
      // The last tick would be lost to the error of the logarithm.
      axis.max = Math.max(...chart.x.map((_, i) => x(chart, i) ?? 0)) + 1e-6;
      axis.axisLabel.formatter = nines;
      axis.axisLabel.customValues = ticks;
      axis.axisTick.customValues = ticks;
    }
    return named(axis, theme, 28);
  }

  function valueAxis(chart, theme) {
    const axis = {
      type: 'value', axisLabel: {color: theme.faint, hideOverlap: true, formatter: short},
      splitLine: {lineStyle: {color: theme.grid}}, axisTick: {show: false},
    };
    return chart.log_y ? logarithmic(chart, axis) : axis;
  }

  // logarithmic ends the axis at the next 1, 2 or 5 around the figures; ECharts alone
  // would go on to a power of ten.
  function logarithmic(chart, axis) {
    const figures = [chart.min, chart.max, chart.line && chart.line.value,
      ...chart.series.flatMap(s => [...s.values, ...(s.low || []), ...(s.high || [])])].filter(v => v > 0);
    if (!figures.length) return axis;
    const [least, greatest] = [Math.min(...figures), Math.max(...figures)];
    const steps = [];
    for (let e = Math.floor(Math.log10(least)); e <= Math.ceil(Math.log10(greatest)); e++) {
      for (const m of [1, 2, 5]) steps.push(Number(`${m}e${e}`));
    }
    const min = steps.findLast(v => v <= least), max = steps.find(v => v >= greatest && v > min);
    let ticks = steps.filter(v => v >= min && v <= max);
    if (ticks.length > 10) ticks = ticks.filter(v => Number.isInteger(Math.round(1e6 * Math.log10(v)) / 1e6));
    Object.assign(axis, {type: 'log', min, max});
    axis.axisLabel.customValues = ticks;
    axis.axisTick.customValues = ticks;
    return axis;
  }

  function named(axis, theme, gap) {
    return Object.assign(axis, {nameLocation: 'middle', nameGap: gap, nameTextStyle: {color: theme.faint, fontSize: 12}});
  }

  // whiskers is a series that draws a line from the least to the greatest of the
  // rounds over each point; at is the place of its bars among those side by side.
  function whiskers(chart, series, theme, at, beside) {
    const horizontal = isBars(chart);
    const data = chart.x.map((_, i) => [x(chart, i), drawable(chart, series.low[i]), drawable(chart, series.high[i])])
      .filter(d => d[0] !== null && d[1] !== null && d[2] !== null);
    return {
      type: 'custom', name: series.name, silent: true, z: 5, data,
      encode: horizontal ? {x: [1, 2], y: 0} : {x: 0, y: [1, 2]},
      renderItem: (_, api) => {
        const place = v => horizontal ? api.coord([v, api.value(0)]) : api.coord([api.value(0), v]);
        const [from, to] = [place(api.value(1)), place(api.value(2))];
        const across = horizontal ? 1 : 0, cap = 3.5;
        if (horizontal) {
          const shift = api.barLayout({barGap, barCategoryGap, count: beside})[at].offsetCenter;
          from[across] += shift;
          to[across] += shift;
        }
        const line = (a, b) => ({type: 'line', shape: {x1: a[0], y1: a[1], x2: b[0], y2: b[1]},
          style: {stroke: theme.whisker, lineWidth: 1.3}});
        const capped = p => line([p[0] - (across ? 0 : cap), p[1] - (across ? cap : 0)],
          [p[0] + (across ? 0 : cap), p[1] + (across ? cap : 0)]);
        return {type: 'group', children: [line(from, to), capped(from), capped(to)]};
      },
    };
  }

  // extent is a series nobody sees: it carries the marked line, and stretches the
  // value axis over the line, the whiskers and the bounds of the chart.
  function extent(chart, theme) {
    const horizontal = isBars(chart);
    const first = chart.x_scale ? x(chart, 0) : 0;
    const values = [chart.min, chart.max, chart.line && chart.line.value].map(v => drawable(chart, v)).filter(v => v);
    const series = {
      type: 'scatter', silent: true, symbolSize: 0, data: values.map(v => horizontal ? [v, first] : [first, v]),
    };
    if (chart.line) {
      series.markLine = {
        symbol: 'none', silent: true, animation: false,
        lineStyle: {color: theme.mark, type: 'dashed', width: 1.5},
        label: {color: theme.mark, fontSize: 11, textBorderColor: theme.card, textBorderWidth: 4, formatter: chart.line.name, position: horizontal ? 'start' : 'insideStartTop'},
        data: [horizontal ? {xAxis: chart.line.value} : {yAxis: chart.line.value}],
      };
    }
    return series;
  }

  function drawn(chart, series, color, at) {
    const common = {name: series.name, color, emphasis: {focus: 'series'}};
    const values = series.values.map(v => drawable(chart, v));
    if (isBars(chart)) {
      return Object.assign(common, {
        type: 'bar', data: values, barGap, barCategoryGap, barMaxWidth: 22, stack: chart.kind === 'stacked' ? 'all' : undefined,
      });
    }
    const data = chart.x_scale
      ? values.map((v, i) => [x(chart, i), v]).filter(d => d[0] !== null && d[1] !== null) : values;
    return Object.assign(common, {
      type: 'line', data, connectNulls: true, symbol: symbols[at % symbols.length], symbolSize: 6,
      showSymbol: data.length <= 16, lineStyle: {width: 2},
    });
  }

  // colour of a target is the same in all charts of a report. A few series that are
  // no targets, such as percentiles, are shades of one colour.
  function colour(chart, i, targets, theme) {
    const at = targets.indexOf(chart.series[i].name);
    if (at >= 0) return theme.palette[at % theme.palette.length];
    const shaded = isBars(chart) && chart.series.length <= theme.shades.length;
    return shaded ? theme.shades[i] : theme.palette[i % theme.palette.length];
  }

  // tooltip lists the figures under the pointer, with the range of the rounds.
  function tooltip(chart, theme) {
    return {
      trigger: 'axis', confine: true, backgroundColor: theme.card, borderColor: theme.grid,
      textStyle: {color: theme.ink, fontSize: 12}, axisPointer: {type: isBars(chart) ? 'shadow' : 'line'},
      formatter: points => {
        const shown = points.filter(p => p.seriesType === 'bar' || p.seriesType === 'line');
        if (!shown.length) return '';
        const at = chart.x_scale ? chart.x.findIndex((_, i) => x(chart, i) === shown[0].value[0]) : shown[0].dataIndex;
        const rows = shown.map(p => row(chart, p.marker, p.seriesName, chart.series.find(s => s.name === p.seriesName), at));
        if (chart.kind === 'stacked') rows.push(row(chart, '', 'together', together(chart), at));
        return `<b>${heading(chart, at)}</b><table>${rows.join('')}</table>`;
      },
    };
  }

  function heading(chart, at) {
    const label = echarts.format.encodeHTML(chart.x[at]);
    if (chart.x_scale === 'nines') return Number((100 * Number(chart.x[at])).toPrecision(7)) + ' %';
    return isBars(chart) || !chart.x_name ? label : `${echarts.format.encodeHTML(chart.x_name)} ${label}`;
  }

  function row(chart, marker, name, series, at) {
    const v = series.values[at], low = (series.low || [])[at], high = (series.high || [])[at];
    if (v === null || v === undefined) return '';
    const known = low !== null && low !== undefined && high !== null && high !== undefined;
    const range = known && low !== high && (chart.kind !== 'stacked' || !marker) ? ` (${three(low)}–${three(high)})` : '';
    const unit = (chart.y_name.match(/, ([^,]+)$/) || ['', ''])[1];
    return `<tr><td style="text-align:left">${marker}${echarts.format.encodeHTML(name)}</td>` +
      `<td><b>${three(v)}</b> ${echarts.format.encodeHTML(unit)}${range}</td></tr>`;
  }

  // together is the sum of a stack; its range is that of the last series.
  function together(chart) {
    const last = chart.series[chart.series.length - 1];
    const values = chart.x.map((_, i) => chart.series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0));
    return {values, low: last.low, high: last.high};
  }

  // legendRows guesses how many rows the legend takes.
  function legendRows(chart, width) {
    let rows = 1, used = 0;
    for (const series of chart.series) {
      const wide = series.name.length * 6.8 + 42;
      if (used > 0 && used + wide > width - 20) {
        rows++;
        used = 0;
      }
      used += wide;
    }
    return chart.series.length > 1 ? rows : 0;
  }

  // height that a chart needs in a width, in pixels.
  function height(chart, width, titled) {
    const around = (titled ? 34 : 0) + legendRows(chart, width) * 22 + 64;
    if (!isBars(chart)) return around + 260;
    const side = chart.kind === 'stacked' ? 1 : chart.series.length;
    return around + chart.x.length * Math.max(30, side * 15 + 12);
  }

  // option is what ECharts draws for a chart. targets are the names whose colour is
  // the same in every chart; titled puts the title into the drawing.
  function option(chart, targets, theme, width, titled) {
    const horizontal = isBars(chart);
    const legend = legendRows(chart, width);
    const top = (titled ? 34 : 0) + legend * 22 + (chart.line && horizontal ? 22 : 12);
    const beside = chart.kind === 'stacked' ? 1 : chart.series.length;
    const series = chart.series.map((s, i) => drawn(chart, s, colour(chart, i, targets, theme), i));
    chart.series.forEach((s, i) => {
      if (s.low && s.low.length) series.push(whiskers(chart, s, theme, chart.kind === 'stacked' ? 0 : i, beside));
    });
    const value = valueAxis(chart, theme);
    return {
      animation: false, backgroundColor: titled ? theme.card : 'transparent', textStyle: {fontFamily: font},
      aria: {enabled: true},
      title: titled ? {text: chart.title, left: 8, top: 8, textStyle: {color: theme.ink, fontSize: 14, fontWeight: 600}} : undefined,
      legend: legend ? {type: 'plain', left: 8, right: 8, top: titled ? 34 : 4, itemWidth: 18, itemHeight: 10, itemGap: 14,
        data: chart.series.map(s => s.name), textStyle: {color: theme.ink, fontSize: 12}} : undefined,
      grid: {left: horizontal ? 24 : 30, right: 24, top, bottom: 34, containLabel: true},
      tooltip: tooltip(chart, theme),
      xAxis: horizontal ? named(value, theme, 28) && Object.assign(value, {name: chart.y_name}) : pointAxis(chart, theme),
      yAxis: horizontal ? categoryAxis(chart, theme, true)
        : Object.assign(named(value, theme, 44), {name: chart.y_name}),
      series: [extent(chart, theme), ...series],
    };
  }

  // svg draws a chart as an image that follows the reader's light or dark.
  function svg(chart, targets, width) {
    const tall = height(chart, width, true);
    const drawing = echarts.init(null, null, {renderer: 'svg', ssr: true, width, height: tall});
    drawing.setOption(option(chart, targets, themes.light, width, true));
    const text = drawing.renderToSVGString();
    drawing.dispose();
    return text.replace(/^<svg /, '<svg role="img" ').replace(/>/, `>\n<title>${echarts.format.encodeHTML(chart.title)}</title>\n<style>${repaint()}</style>`);
  }

  function repaint() {
    const flat = theme => Object.values(theme).flat();
    const dark = flat(themes.dark);
    const rules = flat(themes.light).map((c, i) => `[fill="${c}"]{fill:${dark[i]}}[stroke="${c}"]{stroke:${dark[i]}}`);
    return `@media (prefers-color-scheme:dark){${rules.join('')}}`;
  }

  return {themes, height, option, svg};
})();
