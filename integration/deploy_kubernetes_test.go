package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// object is a Kubernetes object, as far as the tests use it.
type object struct {
	Kind string
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template    podTemplate
		JobTemplate struct {
			Spec struct{ Template podTemplate }
		} `yaml:"jobTemplate"`
		MaxUnavailable int                   `yaml:"maxUnavailable"`
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct{ Metadata map[string]string }
	}
	Metadata struct{ Name string }
}

type podTemplate struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		Grace          int         `yaml:"terminationGracePeriodSeconds"`
		Token          bool        `yaml:"automountServiceAccountToken"`
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
	}
}

type container struct {
	Name, Image string
	Args        []string
	Env         []struct{ Name, Value string }
	Ports       []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe   probe          `yaml:"livenessProbe"`
	ReadinessProbe  probe          `yaml:"readinessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func (c *container) deployed(where string) deployed {
	d := deployed{where + "/" + c.Name, c.Args, map[string]string{}}
	for _, e := range c.Env {
		d.env[e.Name] = e.Value
	}
	return d
}

// kustomization lists what a folder of manifests applies.
type kustomization struct {
	Resources []string
	Images    []struct {
		Name   string
		NewTag string `yaml:"newTag"`
	}
	Patches []struct {
		Target struct{ Kind, Name string }
		Patch  string
	}
}

func readKustomization(t *testing.T, folder string) (k kustomization) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, folder+"/kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	plainFolder = "../deploy/kubernetes"
	kedaFolder  = "../deploy/kubernetes-keda"
)

// deployedObjects returns the objects of both folders.
func deployedObjects(t *testing.T) map[string]*object {
	t.Helper()
	all := manifests(t, plainFolder)
	maps.Copy(all, manifests(t, kedaFolder))
	return all
}

// manifests reads all objects that the kustomization.yaml of a folder names, by kind and name.
func manifests(t *testing.T, folder string) map[string]*object {
	t.Helper()
	index := readKustomization(t, folder)
	index.Resources = slices.DeleteFunc(index.Resources, func(r string) bool { return strings.HasPrefix(r, "../") })
	files, _ := filepath.Glob(folder + "/*.yaml")
	if len(files) != len(index.Resources)+1 {
		t.Errorf("%d files, of which kustomization.yaml names %d", len(files), len(index.Resources))
	}
	all := map[string]*object{}
	for _, file := range index.Resources {
		decoder := yaml.NewDecoder(bufio.NewReader(strings.NewReader(read(t, filepath.Join(folder, file)))))
		for {
			o := &object{}
			err := decoder.Decode(o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[o.Kind+" "+o.Metadata.Name] = o
		}
	}
	return all
}

func TestDeploy_KubernetesFitsTheProgram(t *testing.T) {
	t.Parallel()
	all := deployedObjects(t)
	for name, o := range all {
		for _, pod := range []*podTemplate{&o.Spec.Template, &o.Spec.JobTemplate.Spec.Template} {
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				c.deployed(name).check(t)
				if c.Image != "oarlock" || c.SecurityContext["allowPrivilegeEscalation"] != false || pod.Spec.Token {
					t.Errorf("%s/%s has another image, or may more than it needs", name, c.Name)
				}
			}
		}
	}
	o := all["Deployment oarlock-worker"]
	if o == nil || all["Job oarlock-migrate"] == nil || all["CronJob oarlock-prune"] == nil {
		t.Fatalf("objects: %v", all)
	}
	pod := &o.Spec.Template
	w := &pod.Spec.Containers[0]
	d := w.deployed("worker")
	if grace := time.Duration(pod.Spec.Grace) * time.Second; grace <= d.drain(t) {
		t.Errorf("a pod is killed after %v, and may take %v", grace, d.drain(t))
	}
	if port := fmt.Sprint(w.Ports[0].ContainerPort); port != d.port(t) || w.Ports[0].Name != "http" {
		t.Errorf("port %s is not where it listens", port)
	}
	for path, p := range map[string]probe{"/livez": w.LivenessProbe, "/readyz": w.ReadinessProbe} {
		if p.HTTPGet.Path != path || p.HTTPGet.Port != "http" {
			t.Errorf("the probe for %s asks %+v", path, p.HTTPGet)
		}
	}
	budget := all["PodDisruptionBudget oarlock-worker"]
	if budget == nil || budget.Spec.MaxUnavailable != 1 || fmt.Sprint(budget.Spec.Selector) != fmt.Sprint(o.Spec.Selector) ||
		fmt.Sprint(pod.Metadata.Labels) != fmt.Sprint(o.Spec.Selector.MatchLabels) {
		t.Error("the disruption budget is about other pods")
	}
	checkScaling(t, all["ScaledObject oarlock-worker"], d)
}

// A cluster without KEDA refuses its objects, a Job that exists refuses another image, and replicas in a manifest undo what KEDA
// decided.
func TestDeploy_KubernetesCanBeAppliedAgain(t *testing.T) {
	t.Parallel()
	plain, keda := readKustomization(t, plainFolder), readKustomization(t, kedaFolder)
	for _, file := range plain.Resources {
		if strings.Contains(read(t, filepath.Join(plainFolder, file)), "keda.sh") {
			t.Errorf("%s needs KEDA", file)
		}
	}
	if len(plain.Images) != 1 || !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(plain.Images[0].NewTag) {
		t.Fatalf("the image has no version: %+v", plain.Images)
	}
	name := "oarlock-migrate-" + strings.ReplaceAll(plain.Images[0].NewTag, ".", "-")
	if p := plain.Patches; len(p) != 1 || p[0].Target.Kind != "Job" || p[0].Target.Name != "oarlock-migrate" || !strings.Contains(p[0].Patch, "/metadata/name, value: "+name+"}") {
		t.Errorf("the Job of a version has no name of its own, want %s: %+v", name, p)
	}
	if p := keda.Patches; len(p) != 1 || p[0].Target.Kind != "Deployment" || !strings.Contains(p[0].Patch, "remove, path: /spec/replicas}") {
		t.Errorf("replicas fight with KEDA: %+v", p)
	}
	if !slices.Contains(keda.Resources, "../kubernetes") {
		t.Errorf("with KEDA there are other objects: %v", keda.Resources)
	}
}

var (
	secretKey   = regexp.MustCompile(`key: ([a-z]+-url)\b`)
	secretGiven = regexp.MustCompile(`--from-literal=([a-z]+-url)=`)
	secretRow   = regexp.MustCompile("(?m)^\\| `([a-z]+-url)` \\| ")
	loginRow    = regexp.MustCompile("(?m)^\\| `(oarlock_app_[a-z]+)` \\| `(oarlock_[a-z]+)` \\|")
	loginNamed  = regexp.MustCompile(`oarlock_app_[a-z]+`)
	granted     = regexp.MustCompile(`(oarlock_[a-z]+) TO (oarlock_app_[a-z]+);`)
)

// The page names all logins, and the URLs that a secret needs, as the files do.
func TestDeploy_ThePageNamesEachLoginAndURL(t *testing.T) {
	t.Parallel()
	page := read(t, "../deploy/README.md")
	var files strings.Builder
	for _, folder := range []string{plainFolder, kedaFolder} {
		paths, _ := filepath.Glob(folder + "/*.yaml")
		for _, p := range paths {
			files.WriteString(read(t, p))
		}
	}
	used := found(secretKey, files.String(), 1)
	for what, named := range map[string][]string{"command": found(secretGiven, page, 1), "table": found(secretRow, page, 1)} {
		if !slices.Equal(used, named) {
			t.Errorf("the %s for the secret names %v, the manifests use %v", what, named, used)
		}
	}
	made := map[string]string{}
	for _, m := range granted.FindAllStringSubmatch(read(t, "../deploy/logins.sql"), -1) {
		made[m[2]] = m[1]
	}
	shown := map[string]string{}
	for _, m := range loginRow.FindAllStringSubmatch(page, -1) {
		shown[m[1]] = m[2]
	}
	if !maps.Equal(made, shown) || len(made) != 5 {
		t.Errorf("logins.sql makes %v, the page shows %v", made, shown)
	}
	for _, login := range found(loginNamed, page+read(t, "../compose.yaml"), 0) {
		if made[login] == "" {
			t.Errorf("nothing makes the login %s", login)
		}
	}
}

// found returns the matches of an expression, or of a group of it, in order and once each.
func found(expr *regexp.Regexp, text string, group int) (all []string) {
	for _, m := range expr.FindAllStringSubmatch(text, -1) {
		all = append(all, m[group])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkScaling sends KEDA's query to the database.
func checkScaling(t *testing.T, o *object, worker deployed) {
	t.Helper()
	if o == nil || o.Spec.ScaleTargetRef.Name != "oarlock-worker" || len(o.Spec.Triggers) != 1 {
		t.Fatalf("no scaling: %+v", o)
	}
	ask := o.Spec.Triggers[0].Metadata
	if ask["targetQueryValue"] != worker.env["OARLOCK_SLOTS"] {
		t.Errorf("scaled for %s slots a worker, which has %s", ask["targetQueryValue"], worker.env["OARLOCK_SLOTS"])
	}
	b := setup(t)
	b.put(t, "name: busy\nsteps: [{id: a, run: 'true'}]")
	for range 3 {
		b.enqueue(t, "busy", nil)
	}
	var wanted int
	if err := b.db.Conn(t).QueryRow(t.Context(), ask["query"]).Scan(&wanted); err != nil || wanted != 3 {
		t.Errorf("%s: %d, %v; want 3", ask["query"], wanted, err)
	}
}
