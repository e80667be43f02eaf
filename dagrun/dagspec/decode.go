package dagspec

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// decoder fills Go types from a tree that the schema has checked. It skips nodes that the schema refused.
type decoder struct{ *report }

// own is implemented by types with more than one form in a file.
type own interface{ fromNode(d *decoder, n *node) }

// preset is implemented by types with defaults other than zero values.
type preset interface{ preset() }

func (d *decoder) decode(n *node, v reflect.Value) {
	if p, ok := reflect.TypeAssert[preset](v.Addr()); ok {
		p.preset()
	}
	switch target := v.Addr().Interface().(type) {
	case own:
		target.fromNode(d, n)
		return
	case *Duration:
		parsed, err := ParseDuration(n.text())
		if err != nil {
			d.add(n.pos(), "", "%v", err)
		}
		*target = parsed
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem())
	case reflect.Struct:
		d.fields(n, v)
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.items)))
		for key, item := range n.fields() {
			elem := reflect.New(v.Type().Elem()).Elem()
			d.decode(item, elem)
			v.SetMapIndex(reflect.ValueOf(key.text()), elem)
		}
	case reflect.Interface:
		if plain := n.plain(); plain != nil {
			v.Set(reflect.ValueOf(plain))
		}
	default:
		scalar(n, v)
	}
}

func (d *decoder) fields(n *node, v reflect.Value) {
	names := fieldNames(v.Type())
	for key, value := range n.fields() {
		if i, ok := names[key.text()]; ok {
			d.decode(value, v.Field(i))
		}
	}
}

// slice decodes a list, or a single element where the schema accepts one in place of a list.
func (d *decoder) slice(n *node, v reflect.Value) {
	if n.kind != kindList {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.decode(n, v.Index(0))
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for item := range n.list() {
		list = reflect.Append(list, reflect.Zero(v.Type().Elem()))
		d.decode(item, list.Index(list.Len()-1))
	}
	v.Set(list)
}

// scalar stores a value in a field of matching type. It converts a number or boolean to text for a text field.
func scalar(n *node, v reflect.Value) {
	switch value := n.value.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(value)
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(value)
		} else if v.Kind() == reflect.String {
			v.SetString(fmt.Sprint(value))
		}
	case int64:
		switch v.Kind() {
		case reflect.Int:
			v.SetInt(value)
		case reflect.Float64:
			v.SetFloat(float64(value))
		case reflect.String:
			v.SetString(fmt.Sprint(value))
		}
	case float64:
		if v.Kind() == reflect.Float64 {
			v.SetFloat(value)
		}
	}
}

var fieldCache sync.Map

// fieldNames returns the index of each field of a struct by its JSON name.
func fieldNames(t reflect.Type) map[string]int {
	if cached, ok := fieldCache.Load(t); ok {
		if names, ok := cached.(map[string]int); ok {
			return names
		}
	}
	names := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names[name] = i
		}
	}
	fieldCache.Store(t, names)
	return names
}
