package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// object is a Kubernetes object, as far as it matters here.
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

// manifests reads all objects that kustomization.yaml names, by kind and name.
func manifests(t *testing.T) map[string]*object {
	t.Helper()
	var index struct{ Resources []string }
	const folder = "../deploy/kubernetes"
	if err := yaml.Unmarshal([]byte(read(t, folder+"/kustomization.yaml")), &index); err != nil {
		t.Fatal(err)
	}
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
	all := manifests(t)
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

// checkScaling has the database answer what KEDA asks.
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
