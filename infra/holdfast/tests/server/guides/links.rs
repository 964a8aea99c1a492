//! Checks the links between the pages.

use std::fs;
use std::path::{Path, PathBuf};

use super::{fences, top};

#[test]
fn every_link_points_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for page in pages(&top()) {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in fences::prose(&text).into_iter().enumerate() {
            for target in targets(line) {
                if let Some(problem) = find_problem(&page, target) {
                    broken.push(format!("{}:{}: {target}: {problem}", page.display(), number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_guide_is_linked_from_the_readme() {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    for page in pages(&top().join("infra/docs")) {
        let link = format!("(infra/docs/{})", page.file_name().unwrap().to_str().unwrap());
        assert!(readme.contains(&link), "README.md does not link to {link}");
    }
}

/// Returns the guides in the order in which the README first links to them.
pub(super) fn guides_in_readme_order() -> Vec<PathBuf> {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    let mut guides = Vec::new();
    for line in fences::prose(&readme) {
        for target in targets(line).filter(|target| target.starts_with("infra/docs/")) {
            let page = top().join(target);
            if !guides.contains(&page) {
                guides.push(page);
            }
        }
    }
    guides
}

/// Returns all pages under a folder, except in `target` and in hidden folders other than `.github`.
pub(super) fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name());
        let ours =
            name == ".github" || !name.to_str().is_none_or(|name| name.starts_with('.')) && name != "target";
        if path.is_dir() && ours {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the targets of all `[text](target)` in a line, except in code.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let prose = line.split('`').step_by(2);
    // Backticks in the text split a link, but its `](target)` stays in one part.
    prose.flat_map(|part| part.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)))
}

fn find_problem(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !path.exists() {
        return Some("no such file".to_owned());
    }
    let anchor = anchor?;
    let text = fs::read_to_string(&path).unwrap_or_default();
    let headings = fences::prose(&text).into_iter().filter(|line| line.starts_with('#')).map(slug);
    let found = headings.into_iter().any(|heading| heading == anchor);
    (!found).then(|| "no such heading".to_owned())
}

/// Returns the anchor of a heading: lower case, without punctuation, hyphens for spaces.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
