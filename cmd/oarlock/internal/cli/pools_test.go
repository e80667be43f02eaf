package cli

import (
	"strings"
	"testing"
)

// Administrators set pools; readers see them and set none; other users do not even see them.
func TestPools_EachRoleDoesItsPart(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	for _, c := range []struct {
		role, line string
		exit       exit
		want       string // in the output
	}{
		{toAdmin, "pools set heavy --slots 5 --per-key", exitOK, "made heavy  slots 5 a key"},
		{toAdmin, "pools close heavy --key a", exitOK, "closed key a of heavy"},
		{toRead, "pools", exitOK, "heavy  5 a key"},
		{toRead, "pools show heavy", exitOK, "a    5      closed by " + toAdmin + "_"},
		{"oarlock_worker", "pools show heavy", exitOK, "5 a key"},
		{toRead, "pools set heavy --slots 6 --per-key", exitError, "grant oarlock_admin to this user"},
		{toRead, "pools set heavy --key a --slots 6", exitError, "grant oarlock_admin to this user"},
		{toRead, "pools close heavy", exitError, "grant oarlock_admin to this user"},
		{toRead, "pools open heavy --key a", exitError, "grant oarlock_admin to this user"},
		{toRead, "pools rm heavy", exitError, "grant oarlock_admin to this user"},
		{toSubmit, "pools", exitError, "grant oarlock_read to this user"},
		{toSubmit, "pools show heavy", exitError, "grant oarlock_read to this user"},
		{"nobody", "pools open heavy", exitError, "grant oarlock_admin to this user"},
		{toRead, "pools -o id", exitOK, "heavy\n"},
		{toAdmin, "pools rm heavy", exitOK, "removed heavy"},
	} {
		got := invoke(t, testEnv(), append(strings.Fields(c.line), "--database-url", loginAs(t, db, c.role))...)
		if got.exit != c.exit || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s as %s: exit %d, want %d with %q\n%s%s", c.line, c.role, got.exit, c.exit, c.want, got.stdout, got.stderr)
		}
	}
}

// Notes and keys are texts of users, and command no terminal.
func TestPools_ShowTextsThatCommandNothing(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	const text = "a\x1b[31mb\u202ec"
	for _, words := range [][]string{
		{"set", "crm", "--slots", "1", "--per-key", "--note", text},
		{"set", "crm", "--key", text, "--slots", "2"},
		{"close", "crm", "--key", text},
		{},
		{"show", "crm"},
		{"show", "crm", "-o", "json"},
		{"open", "crm", "--key", text, "-o", "jsonl"},
	} {
		got := invoke(t, testEnv(), append(append([]string{"pools"}, words...), "--database-url", db.URL)...)
		if got.exit != exitOK || strings.ContainsAny(got.stdout+got.stderr, "\x1b\u202e") {
			t.Errorf("%q: exit %d: %q", words, got.exit, got.stdout+got.stderr)
		}
	}
}
