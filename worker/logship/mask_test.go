package logship

import (
	"encoding/base64"
	"math/rand"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oarlock-dev/oarlock/queue"
)

func masked(p *patterns, parts ...string) string {
	m := masker{patterns: p}
	out := ""
	for _, part := range parts {
		out += string(m.mask([]byte(part), false))
	}
	return out + string(m.mask(nil, true))
}

func TestMask_FindsSecretsInManyShapes(t *testing.T) {
	t.Parallel()
	secret := "p@ss/\"w\nörd+1"
	p := newPatterns([]string{secret, " padded-one \n", "-----BEGIN KEY-----\nMIIEabcdefgh\nxyz\n", "abc", ""})
	for name, text := range map[string]string{
		"verbatim": secret, "url": url.QueryEscape(secret), "path": url.PathEscape(secret), "json": `p@ss/\"w\nörd+1`,
		"base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64 url": base64.URLEncoding.EncodeToString([]byte(secret)),
		"hex": "704073732f22770ac3b67264" + "2b31", "trimmed": "padded-one", "a line": "MIIEabcdefgh",
	} {
		got := masked(p, "<"+text+">")
		if got = strings.ReplaceAll(got, "=", ""); got != "<***>" {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
	for _, text := range []string{"abc", "xyz", "padded", "p@ss", "nothing", ""} {
		if got := masked(p, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestMask_OverlapsLeakNothing(t *testing.T) {
	t.Parallel()
	p := newPatterns([]string{"abcdef", "defghi", "aaaa", "abcd"})
	for text, want := range map[string]string{
		"abcdefghi": "***", "xabcdy": "x***y", "abcdeX": "***eX", "abcdefabcdef": "******", "aaaaaa": "***", "aaaaaaaX": "***X",
		"abcdefgh": "***gh", "aaaabcd": "***", "aabcdefghij": "a***j",
	} {
		if got := masked(p, text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestMaskEnd_CutsAPartOfASecretOff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ter-2 said hunter-2": " said ***", "hunter-2!": "***!", "2 r": " r", "said hunter": "said hunter", "": "",
	} {
		if got := MaskEnd(text, []string{"hunter-2"}); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestMask_DoesNotDependOnWhereWritesAreCut(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[random.Intn(2)]
		}
		return string(b)
	}
	for range 3000 {
		secrets := []string{letters(4 + random.Intn(5)), letters(4 + random.Intn(3))}
		p, text := newPatterns(secrets), letters(random.Intn(60))
		whole := masked(p, text)
		var parts []string
		for rest := text; rest != ""; {
			n := 1 + random.Intn(len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if got := masked(p, parts...); got != whole {
			t.Fatalf("secrets %q: %q cut as %q became %q, whole %q", secrets, text, parts, got, whole)
		}
		for _, secret := range secrets {
			if strings.Contains(whole, secret) {
				t.Fatalf("%q is in %q", secret, whole)
			}
		}
	}
}

func TestMask_ReachesAcrossWritesChunksAndTheLastLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), []string{"hunter2hunter2"})
		filler := strings.Repeat("x", ChunkBytes-5)
		write(t, l.Stdout(), []byte(filler+"hunter2"))
		write(t, l.Stdout(), []byte("hunter2 and hunter2"))
		write(t, l.Stderr(), []byte("password is hunter2"))
		write(t, l.Stderr(), []byte("hunter2!\n"))
		sink.put(l.Close("succeeded"))
		want := filler + "*** and hunter2"
		if got := sink.text(1, queue.StreamStdout); got != want {
			t.Errorf("%d bytes, want %d, ending in %q", len(got), len(want), got[len(got)-30:])
		}
		if l.LastLine() != "password is ***!" {
			t.Errorf("last line %q", l.LastLine())
		}
		sink.end(t, 1, len(want)+len("password is ***!\n"), nil)
	})
}

// A publish continues the log of its body, and may have other secrets than the body.
func TestMask_TakesMoreSecretsOnTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), []string{"hunter2"})
		write(t, l.Stdout(), []byte("hunter2 and later, hun"))
		l.Mask([]string{"later", "second"})
		write(t, l.Stdout(), []byte("ter2, later, second\n"))
		sink.put(l.Close("succeeded"))
		if got := sink.text(1, queue.StreamStdout); got != "*** and later, ***, ***, ***\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{"a\nb\n"}, "b"},
		{[]string{"a\n", "\n \n"}, "a"},
		{[]string{"a\n", "b", "c"}, "bc"},
		{[]string{"a\nb", "c\n\n"}, "bc"},
		{[]string{"a\x00\xffb\r\n"}, "a\uFFFDb"},
		{[]string{strings.Repeat("x", 1000) + "\n"}, strings.Repeat("x", lastLineBytes)},
	} {
		var l lastLine
		for _, part := range tt.parts {
			l.write([]byte(part))
		}
		if got := l.text(); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.parts, got, tt.want)
		}
	}
}
