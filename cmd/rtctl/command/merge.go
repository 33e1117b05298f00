package command

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// emitMerged writes the answers of several daemons as one result. A document that is a list keeps its form, and each of its
// rows begins with "daemon"; others become the rows of a list.
func (a *app) emitMerged(parts []*part) error {
	var (
		names     []string
		sheets    []sheet
		documents []any
	)
	for _, p := range parts {
		if p.document != nil {
			names, sheets, documents = append(names, p.name), append(sheets, p.sheet), append(documents, p.document)
		}
	}
	if len(documents) == 0 {
		return nil
	}
	if a.format == formatTable {
		return a.emit(nil, mergeSheets(names, sheets)...)
	}
	document, err := mergeDocuments(names, documents)
	if err != nil {
		return err
	}
	return a.emit(document)
}

// mergeDocuments takes documents of one type.
func mergeDocuments(names []string, documents []any) (any, error) {
	key := listKey(reflect.TypeOf(documents[0]))
	rows := []json.RawMessage{}
	for i, document := range documents {
		v := reflect.ValueOf(document)
		if key != "" {
			v = v.Field(0)
		}
		if v.Kind() != reflect.Slice {
			row, err := withDaemon(names[i], document)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
			continue
		}
		for j := range v.Len() {
			row, err := withDaemon(names[i], v.Index(j).Interface())
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	if key != "" {
		return map[string]any{key: rows}, nil
	}
	return rows, nil
}

// listKey is the key of a document that has no other and holds a list, "" for other documents.
func listKey(t reflect.Type) string {
	if t.Kind() != reflect.Struct || t.NumField() != 1 || t.Field(0).Type.Kind() != reflect.Slice {
		return ""
	}
	return t.Field(0).Tag.Get("json")
}

// withDaemon is a document, a JSON object, that begins with the name of its daemon.
func withDaemon(name string, document any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := newEncoder(&b)
	if err := encoder.Encode(map[string]string{"daemon": name}); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - len("}\n"))
	b.WriteByte(',')
	begin := b.Len()
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	text := b.Bytes()
	return append(text[:begin], bytes.TrimSpace(text[begin:])[1:]...), nil
}
