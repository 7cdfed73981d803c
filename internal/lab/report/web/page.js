// Draws the charts of the page, again when the width or the light changes.
'use strict';

(() => {
  const {charts, targets} = JSON.parse(document.getElementById('data').textContent);
  const night = matchMedia('(prefers-color-scheme: dark)');
  const drawings = [];

  function draw(drawing) {
    const {box, chart} = drawing;
    const width = box.clientWidth;
    if (!width) return;
    const height = qosproxyCharts.height(chart, width, false);
    box.style.height = height + 'px';
    drawing.echarts ??= echarts.init(box, null, {renderer: 'svg', width, height});
    drawing.echarts.resize({width, height});
    const theme = qosproxyCharts.themes[night.matches ? 'dark' : 'light'];
    drawing.echarts.setOption(qosproxyCharts.option(chart, targets, theme, width, false), true);
  }

  const watcher = new ResizeObserver(seen => {
    for (const {target} of seen) {
      const drawing = drawings.find(d => d.box === target);
      if (drawing.width === target.clientWidth) continue;
      drawing.width = target.clientWidth;
      // Not at once: a drawing changes the height, which the observer must not see
      // while it reports.
      requestAnimationFrame(() => draw(drawing));
    }
  });
  for (const box of document.querySelectorAll('[data-chart]')) {
    drawings.push({box, chart: charts[Number(box.dataset.chart)]});
    watcher.observe(box);
  }
  night.addEventListener('change', () => drawings.forEach(draw));
})();
