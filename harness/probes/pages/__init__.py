"""Pages of probe results, in Markdown and HTML, with figures."""
