package dagspec

func checkSpec(r *report, spec *Spec, root *node) {}
