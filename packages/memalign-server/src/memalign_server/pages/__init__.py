"""What all pages share: templates, languages, judged text as safe HTML, the words of verdicts."""
