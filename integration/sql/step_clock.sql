UPDATE chaos.clock SET ahead = $1::bigint * interval '1 millisecond'
