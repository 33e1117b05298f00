package config

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed reference.md.in
var page string

// keysMark stands in the page where the tables of the keys go.
const keysMark = "<!-- keys -->\n"

// Reference is the reference page, in Markdown.
func Reference() string {
	before, after, _ := strings.Cut(page, keysMark)
	var b strings.Builder
	b.WriteString(before)
	keys := newFile().keys()
	var top []key
	for _, k := range keys {
		if k.scalar != nil {
			top = append(top, k)
		}
	}
	section(&b, "Top level", "", top, "")
	for _, k := range keys {
		sections(&b, k, "", "")
	}
	b.WriteString(after)
	return b.String()
}

// sections writes a section for every mapping in k, including itself.
func sections(b *strings.Builder, k key, title, path string) {
	keys := k.keys
	switch {
	case k.scalar != nil:
		return
	case k.list != nil:
		keys = k.list.sample()
		title, path = join(title, k.name+"[]"), join(path, k.name+"[N]")
	default:
		title, path = join(title, k.name), join(path, k.name)
	}
	var own []key
	for _, k := range keys {
		if k.scalar != nil {
			own = append(own, k)
		}
	}
	section(b, "`"+title+"`", k.doc, own, path)
	for _, k := range keys {
		sections(b, k, title, path)
	}
}

func section(b *strings.Builder, title, doc string, keys []key, path string) {
	fmt.Fprintf(b, "### %s\n\n", title)
	if doc != "" {
		fmt.Fprintf(b, "%s\n\n", doc)
	}
	if len(keys) == 0 {
		return
	}
	b.WriteString("| key | type | default | environment | reload | |\n|---|---|---|---|---|---|\n")
	for _, k := range keys {
		reload := "yes"
		if k.fixed {
			reload = "restart"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | `%s` | %s | %s |\n", k.name, typeOf(k.scalar), defaultOf(k), envName(join(path, k.name), k), reload, cell(k.doc))
	}
	b.WriteString("\n")
}

// typeOf is the type of a value with its bounds or words.
func typeOf(s *scalar) string {
	switch {
	case s.kind == kindIDs:
		return string(s.kind)
	case len(s.enum) > 0:
		return "`" + strings.Join(s.enum, "`, `") + "`"
	case s.max != "":
		return fmt.Sprintf("%s, %s to %s", s.kind, s.min, s.max)
	}
	return string(s.kind)
}

func defaultOf(k key) string {
	switch {
	case k.required:
		return "required"
	case k.defDoc != "" && k.def != "":
		return "`" + k.def + "`: " + cell(k.defDoc)
	case k.defDoc != "":
		return cell(k.defDoc)
	case k.def != "":
		return "`" + k.def + "`"
	}
	return "none"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
