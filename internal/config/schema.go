package config

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Schema is the JSON Schema (draft 7, which editors know) of the file, indented.
func Schema() []byte {
	o := append(object{
		{"$schema", "http://json-schema.org/draft-07/schema#"},
		{"title", "Configuration of rtd"},
	}, mappingSchema(newFile().keys(), "", "")...)
	text, err := marshal(o)
	if err == nil {
		var b bytes.Buffer
		if err = json.Indent(&b, text, "", "  "); err == nil {
			return append(b.Bytes(), '\n')
		}
	}
	panic("config: schema: " + err.Error()) // a value that JSON does not know
}

func mappingSchema(keys []key, path, doc string) object {
	var properties object
	required := []string{}
	for _, k := range keys {
		properties = append(properties, field{k.name, keySchema(k, join(path, k.name))})
		if k.required {
			required = append(required, k.name)
		}
	}
	o := object{{"type", "object"}}
	if doc != "" {
		o = append(o, field{"description", doc})
	}
	o = append(o, field{"additionalProperties", false})
	if len(required) > 0 {
		o = append(o, field{"required", required})
	}
	return append(o, field{"properties", properties})
}

func keySchema(k key, path string) object {
	switch {
	case k.list != nil:
		o := object{{"type", "array"}, {"description", k.doc}}
		if k.required {
			o = append(o, field{"minItems", 1})
		}
		return append(o, field{"items", mappingSchema(k.list.sample(), path+"[0]", "")})
	case k.scalar == nil:
		return mappingSchema(k.keys, path, k.doc)
	}
	doc := k.doc
	if k.defDoc != "" {
		doc += " Default: " + k.defDoc + "."
	}
	o := append(scalarSchema(k.scalar), field{"description", doc})
	if k.def != "" {
		o = append(o, field{"default", jsonDefault(k.scalar, k.def)})
	}
	return o
}

// jsonTypes are the kinds that are no texts to JSON.
var jsonTypes = map[kind]string{kindWhole: "integer", kindNumber: "number", kindBool: "boolean"}

func scalarSchema(s *scalar) object {
	if s.kind.isList() {
		item := object{{"type", "string"}, {"minLength", 1}}
		if s.kind == kindIDs {
			item = bounds(object{{"type", "integer"}}, s)
		}
		return object{{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", words(item, s)}}
	}
	if name, ok := jsonTypes[s.kind]; ok {
		return bounds(object{{"type", name}}, s)
	}
	if s.kind == kindObject {
		return object{{"type", "object"}, {"minProperties", 1}}
	}
	o := object{{"type", "string"}, {"minLength", 1}}
	if s.kind == kindTime {
		o = append(o, field{"format", "date-time"})
	}
	return words(o, s)
}

func words(o object, s *scalar) object {
	if len(s.enum) > 0 {
		o = append(o, field{"enum", s.enum})
	}
	if s.pattern != "" {
		o = append(o, field{"pattern", s.pattern})
	}
	return o
}

func bounds(o object, s *scalar) object {
	if s.min == "" {
		return o
	}
	return append(o, field{"minimum", json.Number(s.min)}, field{"maximum", json.Number(s.max)})
}

func jsonDefault(s *scalar, def string) any {
	switch s.kind {
	case kindWhole, kindNumber:
		return json.Number(def)
	case kindBool:
		v, err := strconv.ParseBool(def)
		return err == nil && v
	case kindTexts, kindIDs:
		return []string{def}
	}
	return def
}
