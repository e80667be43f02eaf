package dagspec

// mergeDefaults copies the values of `defaults:` into every step and handler that does not set them itself, and removes
// `defaults:`. Maps (env, kill, retry_policy) are merged key by key.
func mergeDefaults(root *node) {
	defaults := root.get("defaults")
	for step := range root.get("steps").list() {
		mergeInto(step, defaults)
	}
	for _, handler := range root.get("handler_on").fields() {
		mergeInto(handler, defaults)
	}
	for i, k := range root.keys {
		if k.value == "defaults" {
			k.bad, root.items[i].bad = true, true
		}
	}
}

func mergeInto(step, defaults *node) {
	for k, v := range defaults.fields() {
		_, own := step.find(k.text())
		switch {
		case own == nil && step.kind == kindMap:
			step.keys, step.items = append(step.keys, k), append(step.items, v)
		case own != nil && !own.bad && own.kind == kindMap && v.kind == kindMap:
			step.replace(k.text(), overlay(own, v))
		}
	}
}

// overlay returns a copy of own with the entries of base that own lacks. It changes neither map, because aliases may share
// them.
func overlay(own, base *node) *node {
	merged := &node{kind: kindMap, at: own.at, size: own.size}
	merged.keys = append(merged.keys, own.keys...)
	merged.items = append(merged.items, own.items...)
	for k, v := range base.fields() {
		if !own.has(k.text()) {
			merged.keys, merged.items = append(merged.keys, k), append(merged.items, v)
		}
	}
	return merged
}

func (n *node) replace(key string, value *node) {
	for i, k := range n.keys {
		if k.value == key {
			n.items[i] = value
		}
	}
}
