package config

// Value is one value that is in force.
type Value struct {
	Key      string // path
	Value    string // "": none; a list is joined by commas. Secrets are named, never told
	Note     string // what holds where there is no value
	Origin   Origin
	Variable string // of the environment, that sets the key
	Fixed    bool   // holds until the next start
}

// Values lists the values of every key, in the order of the reference page.
func (c *Config) Values() []Value {
	var list []Value
	walk(c.keys(), "", func(path string, k key) {
		v := Value{Key: path, Origin: c.origins[path], Variable: envName(path, k), Fixed: k.fixed}
		_, given := c.origins[path]
		switch {
		case given && k.hidden:
			v.Value = "(given)"
		case given || k.def != "":
			v.Value = k.scalar.get()
		default:
			v.Note = k.defDoc
		}
		if v.Value == "" {
			v.Value = k.scalar.get()
			if isZeroText(v.Value) {
				v.Value = ""
			}
		}
		list = append(list, v)
	})
	return list
}

// isZeroText tells the values of fields that nobody filled.
func isZeroText(v string) bool { return v == "0" || v == "0s" || v == "0B" || v == "false" }
