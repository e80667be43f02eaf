package plainjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Compact returns a value as JSON on one line, without spaces between tokens. Unlike json.Marshal, it does not escape <, > and &.
func Compact(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("write a value as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
