SELECT CASE WHEN statement_timestamp() - clock.servers_statement() = now() - CURRENT_TIMESTAMP AND clock_timestamp() >= statement_timestamp()
             AND clock_timestamp() - (now() - CURRENT_TIMESTAMP) <= clock.servers() -- which is asked last
            THEN (extract(epoch FROM now() - CURRENT_TIMESTAMP) * 1000)::bigint END
