package logship

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	minSecretBytes = 4
	minLineBytes   = 8 // of one line of a secret with several lines; shorter lines are ordinary words
	stars          = "***"
)

// patterns are the texts to mask, by their first byte.
type patterns struct {
	byFirst [256][][]byte
}

// newPatterns returns the patterns of secrets; nil if there are no secrets, as for most attempts.
func newPatterns(secrets []string) *patterns {
	if len(secrets) == 0 {
		return nil
	}
	var shapes []string
	for _, secret := range secrets {
		shapes = append(shapes, Shapes(secret)...)
	}
	return patternsOf(shapes)
}

// patternsOf returns the patterns of shapes. It leaves out shapes of fewer than minSecretBytes.
func patternsOf(shapes []string) *patterns {
	p := &patterns{}
	seen := map[string]bool{}
	for _, shape := range shapes {
		if len(shape) < minSecretBytes || seen[shape] {
			continue
		}
		seen[shape] = true
		p.byFirst[shape[0]] = append(p.byFirst[shape[0]], []byte(shape))
	}
	return p
}

// Shapes returns the forms in which a secret is masked: as it is, line by line, and in the encodings of URLs, JSON, base64 and
// hex. The caller must leave out forms of fewer than four bytes.
func Shapes(secret string) []string {
	trimmed := strings.TrimSpace(secret)
	list := []string{secret, trimmed}
	if len(trimmed) < minSecretBytes {
		return list
	}
	for line := range strings.Lines(trimmed) {
		if line = strings.TrimSpace(line); len(line) >= minLineBytes {
			list = append(list, line)
		}
	}
	for _, s := range []string{secret, trimmed} {
		list = append(list, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)))
		if quoted, err := json.Marshal(s); err == nil {
			list = append(list, string(quoted[1:len(quoted)-1]))
		}
	}
	return slices.Compact(list)
}

// MaskBeginning replaces the shapes of secrets by *** in text, the beginning of a longer text. It cuts off an end that may be the
// beginning of a secret. Shapes of fewer than four bytes are ignored.
func MaskBeginning(text string, shapes []string) string {
	m := masker{patterns: patternsOf(shapes)}
	return string(m.mask([]byte(text), false))
}

// MaskEnd is MaskBeginning for the end of a longer text: it cuts off a beginning that may be the end of a secret.
func MaskEnd(text string, shapes []string) string {
	backwards := make([]string, len(shapes))
	for i, shape := range shapes {
		backwards[i] = reversed(shape)
	}
	return reversed(MaskBeginning(reversed(text), backwards))
}

// reversed returns the bytes of a text from the last to the first.
func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// masker masks one stream. It holds back bytes that may be the beginning of a secret, until the next bytes decide.
type masker struct {
	patterns *patterns
	held     []byte
	inside   int // bytes at the front of held that belong to a secret that was already masked
}

// mask takes the next bytes of the stream, and returns the bytes that are decided, with stars in place of secrets. It keeps an end
// that may begin a secret for the next call. With end, at the end of the stream, it keeps nothing. Without secrets it returns p
// itself.
func (m *masker) mask(p []byte, end bool) []byte {
	if m.patterns == nil {
		return p
	}
	text := append(m.held, p...) //nolint:gocritic // held is replaced below
	out := make([]byte, 0, len(text)+len(stars))
	i, until := 0, m.inside
	for ; i < len(text); i++ {
		length, open := m.at(text[i:])
		if open && !end {
			break
		}
		if length > 0 {
			if i >= until {
				out = append(out, stars...)
			}
			until = max(until, i+length)
		}
		if i >= until {
			out = append(out, text[i])
		}
	}
	m.held, m.inside = bytes.Clone(text[i:]), max(0, until-i)
	return out
}

// at returns the length of the longest secret at the beginning of text, which must not be empty; 0: there is none. open reports
// that text may be the beginning of a longer secret, which more bytes would show.
func (m *masker) at(text []byte) (length int, open bool) {
	for _, pattern := range m.patterns.byFirst[text[0]] {
		switch {
		case bytes.HasPrefix(text, pattern):
			length = max(length, len(pattern))
		case bytes.HasPrefix(pattern, text):
			open = true
		}
	}
	return length, open
}
