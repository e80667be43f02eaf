package exec

import (
	"fmt"
	"maps"
	"path"
	"slices"
)

// LoaderVariables are globs of variables by which a program can be made to load or run other code. Where only some programs are
// allowed, a DAG may set none of these variables. Such a list is never complete: docs/environment.md says what follows from that.
var LoaderVariables = []string{
	// the dynamic loader, and modules that the C library loads
	"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH",
	// where programs and the settings of programs are looked for
	"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS",
	// shells
	"BASH_ENV", "ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "SHELL", "IFS", "PS4", "PROMPT_COMMAND", "CDPATH", "ZDOTDIR", "FPATH",
	// interpreters
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONUSERBASE", "PYTHONEXECUTABLE",
	"PYTHONWARNINGS", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX",
	"PERL5*", "PERLLIB", "PERL_*", "RUBYOPT", "RUBYLIB", "RUBYPATH", "RUBYSHELL", "GEM_*", "BUNDLE_*",
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_*", "NPM_CONFIG_*", "npm_config_*", "BUN_*", "DENO_*",
	"JAVA_TOOL_OPTIONS", "*JAVA_OPTIONS", "JAVA_OPTS", "JAVA_HOME", "CLASSPATH", "MAVEN_OPTS", "GRADLE_OPTS", "JVM_OPTS",
	"PHPRC", "PHP_INI_SCAN_DIR", "LUA_*", "R_*", "JULIA_*", "ERL_*", "TCLLIBPATH", "GUILE_*", "DOTNET_*", "CORECLR_*", "COR_*",
	"GOFLAGS", "GOROOT", "GOTOOLDIR", "CARGO_*", "RUSTC*", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "CC", "CXX",
	// programs that others start
	"EDITOR", "VISUAL", "*PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "*_ASKPASS", "*_RSH", "SVN_SSH", "TAR_OPTIONS",
	"GIT_SSH*", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_PROXY_COMMAND",
	"GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR", "PSQLRC", "PSQL_EDITOR",
	// plugins, and settings that name programs
	"OPENSSL_*", "SASL_PATH", "KRB5_CONFIG", "GTK_*", "GIO_*", "GST_*", "QT_*", "CURL_HOME", "WGETRC",
	"AWS_CONFIG_FILE", "KUBECONFIG", "DOCKER_CONFIG", "CLOUDSDK_*", "TF_CLI_*", "ANSIBLE_*",
}

// loads reports whether the name of a variable matches one of LoaderVariables. Case matters, as it does for the programs that read
// them.
func loads(name string) bool {
	return slices.ContainsFunc(LoaderVariables, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

// checkLoaders returns an error if e, the variables that a DAG sets, has one of LoaderVariables. allow is the list of allowed
// programs: if it is empty, all programs are allowed, and checkLoaders returns nil. A value that is too long for a variable also
// counts under the name of the variable that will name its file.
func (e environment) checkLoaders(allow []string) error {
	if len(allow) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if loads(name) || len(e[name]) > maxValueBytes && loads(name+fileSuffix) {
			return fmt.Errorf("env: %s can have an allowed program load or run another, and command_allow is in force on this worker: "+
				"remove the variable from the DAG, or set the variable in env of the worker", name)
		}
	}
	return nil
}
