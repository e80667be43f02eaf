package dagspec

func PoolKey(key string, params map[string]any, labels map[string]string) string { return key }
