UPDATE clock.step SET ahead = $1::bigint * interval '1 millisecond'
