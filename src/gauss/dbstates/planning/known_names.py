"""Names that may stand before a parenthesis in a statement that leaves nothing in its session."""

from __future__ import annotations

from gauss.dbstates.planning.lexer import words

_KEYWORDS = words(
    "add all always analyse analyze and any array asc asymmetric attribute authorization between bigint bigserial "
    "binary bit boolean both box bpchar brin btree by bytea cascade case cast char character check coalesce collate "
    "collation column columns concurrently conflict constraint create cross cube current_catalog current_date "
    "current_role current_schema current_time current_timestamp current_user dec decimal declare default deferrable "
    "delete desc distinct do double else elseif elsif end enum except exception execute exists extract false fetch "
    "filter float float4 float8 for foreign found freeze from full function gin gist grant greatest group grouping "
    "hash having identity if ilike in include inet inherits initially inner inout insert int int2 int4 int8 integer "
    "intersect interval is isnull join json json_array json_arrayagg json_exists json_object json_objectagg "
    "json_query json_scalar json_serialize json_table json_value jsonb key lateral leading least left like limit list "
    "localtime localtimestamp loop materialized merge_action money national natural nchar none normalize not notnull "
    "null nullif nulls numeric of offset options or order out outer over overlaps overlay partition perform placing "
    "policy position precision primary procedure raise range real restrict return returning returns right rollup row "
    "select serial session_user set setof sets similar simple smallint smallserial some spgist stored strict "
    "substring symmetric system_user tablesample then time timestamp to trailing treat trigger trim true tsquery "
    "tsvector union unique unnest update user using uuid values varchar variadic verbose when where while window with "
    "within xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize "
    "xmltable "
)
_FUNCTIONS = words(
    "abbrev abs acos acosd acosh age any_value area array_agg array_dims array_fill array_length array_lower "
    "array_ndims array_position array_positions array_remove array_replace array_reverse array_sort array_to_json "
    "array_to_string array_to_tsvector array_upper ascii asin asind asinh atan atan2 atan2d atand atanh avg bit_and "
    "bit_count bit_length bit_or bit_xor bool bool_and bool_or box bpchar btrim bytea cardinality casefold cbrt ceil "
    "ceiling center char_length character_length chr cidr circle clock_timestamp col_description concat concat_ws "
    "convert convert_from convert_to corr cos cosd cosh cot cotd count covar_pop covar_samp crc32 crc32c crypt "
    "cume_dist current_database current_schemas current_setting date date_add date_bin date_part date_subtract "
    "date_trunc datemultirange daterange daterange_canonical daterange_subdiff decode degrees dense_rank dexp "
    "diagonal diameter digest div dlog1 dlog10 dround dtrunc encode enum_first enum_last enum_range erf erfc every "
    "exp factorial family first_value float4 float8 floor format format_type gamma gcd gen_random_uuid gen_salt "
    "generate_series generate_subscripts get_bit get_byte get_current_ts_config getdatabaseencoding getpgusername "
    "height hmac host hostmask icu_unicode_version inet_merge inet_same_family initcap int2 int4 int4inc "
    "int4multirange int4range int4range_canonical int4range_subdiff int8 int8_sum int8multirange int8range "
    "int8range_canonical int8range_subdiff is_normalized isclosed isempty isfinite ishorizontal isopen isparallel "
    "isperp isvertical json_agg json_agg_strict json_array_elements json_array_elements_text json_array_length "
    "json_build_array json_build_object json_each json_each_text json_object_agg json_object_agg_strict "
    "json_object_agg_unique json_object_agg_unique_strict json_object_keys json_populate_record "
    "json_populate_recordset json_strip_nulls json_to_record json_to_recordset json_to_tsvector json_typeof jsonb_agg "
    "jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array "
    "jsonb_build_object jsonb_each jsonb_each_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_agg_strict "
    "jsonb_object_agg_unique jsonb_object_agg_unique_strict jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz "
    "jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz "
    "jsonb_path_query_first jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record "
    "jsonb_populate_record_valid jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls "
    "jsonb_to_record jsonb_to_recordset jsonb_to_tsvector jsonb_typeof justify_days justify_hours lag last_value lcm "
    "lead length lgamma like_escape line ln log log10 lower lpad lseg ltrim macaddr macaddr8 macaddr8_set7bit "
    "make_date make_time make_timestamp make_timestamptz makeaclitem masklen max md5 min min_scale mod mode money "
    "multirange mxid_age name netmask network nextval notlike now npoints nth_value ntile num_nonnulls num_nulls "
    "numeric_div_trunc numeric_exp numeric_ln numeric_log numeric_sqrt nummultirange numnode numrange "
    "numrange_subdiff obj_description octet_length oid oidvectortypes parse_ident path pclose percent_rank "
    "percentile_cont percentile_disc pg_advisory_xact_lock pg_get_serial_sequence pg_relation_size pg_size_pretty "
    "pg_sleep pg_total_relation_size pg_typeof phraseto_tsquery pi plainto_tsquery point polygon popen "
    "postgresql_fdw_validator pow power quote_ident quote_literal quote_nullable radians radius random random_normal "
    "range_agg range_intersect_agg range_merge rank regclass regexp_count regexp_like regexp_match regexp_matches "
    "regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count "
    "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse round row_number row_to_json "
    "rpad rtrim scale set_bit set_byte set_masklen setval setweight sha224 sha256 sha384 sha512 shobj_description "
    "sign similar_escape similar_to_escape similarity sin sind sinh slope split_part sqrt statement_timestamp stddev "
    "stddev_pop stddev_samp string_agg string_to_array string_to_table strip strpos substr sum tan tand tanh text "
    "textlen timeofday timestamptz timetz timezone to_ascii to_bin to_char to_date to_hex to_json to_jsonb to_number "
    "to_oct to_regclass to_regtype to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array "
    "trim_scale trunc ts_debug ts_delete ts_filter ts_headline ts_parse ts_rank ts_rank_cd ts_token_type tsmultirange "
    "tsrange tsrange_subdiff tstzmultirange tstzrange tstzrange_subdiff tsvector_to_array unaccent unicode_assigned "
    "unicode_version unistr unnest upper uuid_extract_timestamp uuid_extract_version uuid_generate_v1 "
    "uuid_generate_v4 uuidv4 uuidv7 var_pop var_samp varbit variance version websearch_to_tsquery width width_bucket "
    "xid xml xmlagg xmlcomment xmltext xmlvalidate xpath xpath_exists "
)
"""Functions of Postgres and of its extensions that change neither a setting nor anything else of a session."""

CALLABLE = _KEYWORDS | _FUNCTIONS

CONTEXT = words(
    "into references table exists index view as copy only recursive constraint type domain schema update insert "
    "aggregate trigger publication statistics with"
)
"""Words after which a name before a parenthesis is none of a function."""

EXTENSIONS = words(
    "bloom btree_gin btree_gist citext cube dict_int dict_xsyn earthdistance fuzzystrmatch hstore intarray isn lo "
    "ltree pg_trgm pgcrypto plpgsql seg tablefunc tcn unaccent uuid-ossp pg_stat_statements tsm_system_rows"
)
"""Extensions whose functions, triggers and scripts leave nothing in a session."""
