"""The report: sections make a document, which renderers turn into HTML, Markdown or text."""
