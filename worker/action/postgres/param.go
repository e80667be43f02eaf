package postgres

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/internal/plainjson"
)

// wholly are the types for which a list or a map is sent as JSON. For any other type a list is sent as an array.
var wholly = []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.UnknownOID}

// encode returns a value in the server's text format for the type oid; nil is NULL. Texts and numbers are sent as they were
// written. A list becomes an array, unless the type is JSON or text: then it becomes JSON, as a map does for each type. It returns
// an error for a text with a NUL byte.
func encode(oid uint32, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.IndexByte(value, 0) >= 0 {
			return nil, errors.New("the text has a NUL character, which Postgres cannot store")
		}
		return []byte(value), nil
	case []any:
		if !slices.Contains(wholly, oid) {
			var b bytes.Buffer
			err := array(&b, value, oid == pgtype.JSONArrayOID || oid == pgtype.JSONBArrayOID)
			return b.Bytes(), err
		}
	}
	return plainjson.Compact(value)
}

// array writes a list to b in the format {…} of Postgres arrays. A list in the list is a further dimension, or with ofJSON one
// element, as all elements are JSON then.
func array(b *bytes.Buffer, list []any, ofJSON bool) error {
	b.WriteByte('{')
	for i, value := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := element(b, value, ofJSON); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func element(b *bytes.Buffer, value any, ofJSON bool) error {
	if inner, ok := value.([]any); ok && !ofJSON {
		return array(b, inner, false)
	}
	if value == nil {
		b.WriteString("NULL")
		return nil
	}
	text, isText := value.(string)
	if !isText || ofJSON {
		encoded, err := plainjson.Compact(value)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return errors.New("a text in the list has a NUL character, which Postgres cannot store")
	}
	b.WriteByte('"')
	b.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
	b.WriteByte('"')
	return nil
}
