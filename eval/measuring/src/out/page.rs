//! The page: all figures and tables in one file.

use std::fmt::Write as _;

use super::figures::{ALONE, Figure, all};
use super::table::{believed, claims, percentile, text};
use crate::function::Subject;
use crate::method::Method;
use crate::run::Results;
use curtail_plot::format::{NONE, escape, three};
use curtail_plot::palette::{Look, key_of};
use curtail_plot::{FIGURE_SIZES, Page};

pub(super) fn render(results: &Results) -> String {
    let mut main = String::new();
    section(&mut main, "agreement", "How far to believe each method", &agreement(results));
    section(&mut main, "thesis", "The switch, beside the thesis' switch", &beside(results));
    let figures: String = all(results).iter().map(figure).collect();
    section(&mut main, "figures", "Distributions", &figures);
    let table = format!("<div class=\"scroll\"><pre>{}</pre></div>", escape(&text(results)));
    section(&mut main, "all", "All figures", &table);
    let more = if results.partial {
        r#"<p class="partial" role="note"><strong>Interrupted.</strong> What there was is here.</p>"#
    } else {
        ""
    };
    Page {
        verb: "eval papers measuring",
        title: "chapter 3 of document 000",
        headline: "How far to believe what measures microseconds",
        more,
        main: main.trim_end(),
    }
    .render()
}

fn section(main: &mut String, id: &str, title: &str, content: &str) {
    let _ = write!(
        main,
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{content}\n</section>\n"
    );
}

fn figure(figure: &Figure) -> String {
    let [wide, narrow] =
        FIGURE_SIZES.map(|(_, height, class, end)| figure.draw((width(class), height, class, end)));
    let looks: Vec<(String, Look)> =
        figure.lines.iter().map(|(name, look, _)| (name.clone(), *look)).collect();
    let title = escape(&figure.title);
    format!(
        "<figure>{}{wide}{narrow}<figcaption>{title}.</figcaption></figure>\n",
        key_of(&looks, "")
    )
}

fn width(class: &str) -> f64 {
    if class == ALONE.2 { ALONE.0 } else { FIGURE_SIZES[1].0 }
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table class=\"one\"><thead><tr>");
    for name in head {
        let _ = write!(html, "<th scope=\"col\">{name}</th>");
    }
    html += "</tr></thead><tbody>";
    for row in rows {
        html += "<tr>";
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match i {
                0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                _ => write!(html, "<td>{cell}</td>"),
            };
        }
        html += "</tr>";
    }
    html + "</tbody></table></div>"
}

fn agreement(results: &Results) -> String {
    let rows: Vec<Vec<String>> = Subject::all()
        .into_iter()
        .map(|subject| {
            let told = Method::ALL.map(|method| {
                results.cell(subject, method).map_or_else(
                    || NONE.to_owned(),
                    |cell| {
                        let (plain, less, offset_ns) = believed(cell);
                        let off = three(offset_ns / 1e3);
                        format!("{} / {} ({off} µs)", percentile(plain), percentile(less))
                    },
                )
            });
            [vec![subject.to_string()], told.to_vec()].concat()
        })
        .collect();
    let head = [&["subject"][..], &Method::ALL.map(Method::name)].concat();
    let rule = "<p>Up to which percentile a method agrees with the taps, which saw the same packets: \
                within 1 µs or 10 %, there and at all lower percentiles. As it is, and less what it is \
                off at the median, which is in parentheses.</p>";
    rule.to_owned() + &table(&head, &rows)
}

fn beside(results: &Results) -> String {
    let rows: Vec<Vec<String>> = claims(results)
        .into_iter()
        .map(|(claim, published, ours)| vec![claim.to_owned(), published.to_owned(), ours])
        .collect();
    table(&["", "thesis, µs", "ours, µs"], &rows)
}
